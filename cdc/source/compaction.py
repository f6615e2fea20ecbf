"""Schema snapshots out of the log itself, so that nobody follows more than so many statements.

A reader begins with the newest snapshot at or below its place and follows what comes behind it.
The server is asked for one when an upstream is registered, and when a changefeed begins whose
tables are not as the log says; all others are what statements have made of the one before, by the
same code that every reader follows them with.
They hold where every changefeed has been, so whoever starts is near one; and as the log's begin
passes them, those before and the statements in between go.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

from cdc.base.ts import Ts
from cdc.changelog import journal, names, snapshots
from cdc.changelog.errors import LogCollected, LogWriteFailed
from cdc.changelog.reader import ChangeLog
from cdc.changelog.state import LogState
from cdc.schema.snapshot import compacted
from cdc.source.statements import History

# Statements are looked for in each part of the log once, so its indexes need not be kept.
_INDEX_BYTES = 1 << 20


class Compaction:
    """Of one log. One thread at a time."""

    def __init__(self, folder: Path, statements: int) -> None:
        self._folder = folder
        self._statements = statements
        self._base: Ts = -1
        self._counted: Ts = 0
        self._count = 0

    def run(self, state: LogState, checkpoint_ts: Ts, starts: Collection[Ts] = ()) -> bool:
        """Save a snapshot at a checkpoint, if enough statements lie before it; whether it did.

        ``state`` is the log's, ``starts`` where changefeeds began, as :meth:`LogWriter.collect`
        takes them. Raises LogCorrupt, LogWriteFailed.
        """
        ts = min(checkpoint_ts, state.resolved_ts)
        try:
            base = _newest(self._folder, ts)
            if base is None or self._at_most(state, base, ts) < self._statements:
                return False
            with closing(ChangeLog.open(self._folder, index_bytes=_INDEX_BYTES)) as log:
                if self._counted_from(base, log, ts) < self._statements:
                    return False
                self._count = 0
                snapshot = at(log, ts)
        except LogCollected:
            # Retention has gone on meanwhile.
            self._base = -1
            return False
        if snapshot is None or _newest(self._folder, ts) != self._base:
            return False
        try:
            snapshots.save(self._folder, ts, snapshot)
            snapshots.trim(self._folder, state.first_ts, starts)
        except OSError as error:
            raise LogWriteFailed(
                f"a schema snapshot was not written: {error.strerror or error}",
                object=names.shown(self._folder),
                hint="look at the disk of the data folder",
            ) from error
        return True

    def _at_most(self, state: LogState, base: Ts, ts: Ts) -> int:
        """How many statements there may be in ``(base, ts]``, without opening the log."""
        segments = (s for s in state.segments() if s.last_ts > base and 0 < s.first_ts <= ts)
        count = sum(segment.ddls for segment in segments)
        if base < state.first_ts:
            count += sum(1 for _ in journal.read(self._folder, base, state.first_ts))
        return count

    def _counted_from(self, base: Ts, log: ChangeLog, ts: Ts) -> int:
        if base != self._base:
            self._base = self._counted = base
            self._count = 0
        if ts > self._counted:
            self._count += len(log.statements(self._counted, ts))
            self._counted = ts
        return self._count


def at(log: ChangeLog, ts: Ts) -> dict[str, Any] | None:
    """The snapshot at ``ts``, made of the newest before; None if no table is known any more.

    Raises LogCollected, LogCorrupt.
    """
    base = log.snapshot_at(ts)
    history = History(log, ts, base)
    versions = history.versions
    if versions.all_lost:
        return None
    return compacted(
        base,
        versions.at(ts),
        ts,
        lost=[[list(name), since, error.marked()] for name, since, error in versions.lost],
        unkeyed=[[list(name), since] for name, since in history.unkeyed.items()],
    )


def _newest(folder: Path, ts: Ts) -> Ts | None:
    return max((s for s in snapshots.list_ts(folder) if s <= ts), default=None)
