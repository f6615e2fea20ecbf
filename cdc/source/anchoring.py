"""Noting in the store where a log could begin anew, while it is pulled.

An anchor is a place, with the schema there, from which every later commit has its rows: those of XA
transactions that are prepared there, too, or whoever reads the log has had them. The schema is
written again only where statements have changed it since the anchor before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from cdc.base.ts import Ts
from cdc.changelog import origin
from cdc.changelog.reader import ChangeLog
from cdc.changelog.state import LogState
from cdc.coord.anchors import Anchors
from cdc.coord.contract import Compare
from cdc.source.anchor_place import INDEX_BYTES, AnchorPlaces, WhenPrepared
from cdc.source.compaction import at


class Anchoring:
    """Of one log, which ``capture`` pulls; ``held`` says that it is still the upstream's.

    ``when_prepared``: as :class:`~cdc.source.anchor_place.AnchorPlaces` takes it.

    One thread at a time.
    """

    def __init__(
        self,
        folder: Path,
        anchors: Anchors,
        held: Sequence[Compare],
        capture: str,
        when_prepared: WhenPrepared,
    ) -> None:
        self._folder = folder
        self._places = AnchorPlaces(folder, when_prepared)
        self._capture = capture
        self._anchors = anchors
        self._held = held
        self._log = origin.of(folder).log
        newest = anchors.all()[-1:]
        self._last: tuple[Ts, Ts] | None = (newest[0].ts, newest[0].schema_ts) if newest else None
        # By segment, how many statements it had when they were last looked at.
        self._ddls: dict[int, int] | None = None

    @property
    def newest_ts(self) -> Ts:
        """The ts of the newest anchor, 0 if there is none."""
        return self._last[0] if self._last is not None else 0

    def has_place(self, state: LogState) -> bool:
        """Whether a log could begin at ``state``, as far as can be told without looking."""
        return self._places.may_be_at(state)

    def run(self, state: LogState, needed_ts: Ts) -> bool:
        """Write an anchor where the log stands, if it can be one; whether it did.

        Those below ``needed_ts`` that nothing would begin with are removed.
        Raises LogCorrupt, LogCollected, StoreFailed.
        """
        ts = state.resolved_ts
        if self._last is not None and ts <= self._last[0]:
            return False
        place = self._places.at(state)
        if place is None:
            return False
        schema_ts, snapshot = ts, None
        ddls = {s.number: s.ddls for s in state.segments()}
        if self._last is not None and ddls == self._ddls:
            schema_ts = self._last[1]
        else:
            with closing(ChangeLog.open(self._folder, index_bytes=INDEX_BYTES)) as log:
                if self._last is not None and not log.statements(self._last[0], ts):
                    schema_ts = self._last[1]
                else:
                    snapshot = at(log, ts)
                    if snapshot is None:
                        return False
        added = self._anchors.add(
            ts,
            place.position,
            schema_ts,
            snapshot,
            self._held,
            self._capture,
            self._log,
            place.prepared,
        )
        if not added:
            return False
        self._last, self._ddls = (ts, schema_ts), ddls
        self._anchors.trim(needed_ts, self._held, self._log)
        return True
