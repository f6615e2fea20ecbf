"""The log of an upstream is there before anybody reads it: this capture's own, or one made anew.

Positions of changefeeds belong to one log of their upstream, which the store names. Where this
capture has another one, or none, it makes a log that begins at an anchor below all that changefeeds
need and gives the transactions at which ledgers and progress stand the ts that they have there
(``cdc.changelog.origin``). So whoever goes on from them finds every position where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from cdc.base.errors import DefiniteError, TidegateError, TransientError
from cdc.base.position import Position, Stand, TransactionName, stand
from cdc.base.ts import MAX_TS, Ts, to_text
from cdc.changelog import names, origin
from cdc.changelog.origin import Origin
from cdc.changelog.reader import ChangeLog
from cdc.coord.anchors import Anchors
from cdc.coord.contract import Compare, Store, Unchanged
from cdc.coord.feed_config import FeedConfig
from cdc.coord.keys import Keys
from cdc.coord.log_begin import needed_ts
from cdc.coord.messages import (
    ENDED,
    Anchor,
    CopiedRows,
    DdlEntries,
    FeedInfo,
    FeedStatus,
    UpstreamInfo,
    named,
)
from cdc.coord.stored import read, readable
from cdc.server import log_folders
from sink.open import sink_of

_log = logging.getLogger("upstream")


class UpstreamLogLost(DefiniteError):
    """The change log of a registered upstream is not there, and none can be made in its place."""

    code = "TG:ErrUpstreamLogLost"


class UpstreamMoved(TransientError):
    """Another capture has made a log of the upstream in the same moment."""

    code = "TG:ErrUpstreamMoved"


class LogMaker(Protocol):
    """What makes a log that begins elsewhere than now."""

    def begin(self, folder: Path, anchor: Anchor, snapshot: dict[str, Any], o: Origin) -> None:
        """Make the log of a folder, which holds nothing yet."""

    def begin_merged(
        self,
        folder: Path,
        anchor: Anchor,
        snapshot: dict[str, Any],
        o: Origin,
        nodes: Sequence[tuple[str, Path, Ts]],
    ) -> None:
        """Make the log over logs of nodes: by its own name each one's folder and begin."""


class LogReplacement:
    """Of the logs of one capture. ``folder`` names the folder of an upstream's log."""

    def __init__(
        self, store: Store, keys: Keys, capture: str, maker: LogMaker, folder: Callable[[str], Path]
    ) -> None:
        self._store = store
        self._keys = keys
        self._capture = capture
        self._maker = maker
        self._folder = folder

    def note(
        self, upstream: str, folder: Path, first: tuple[Ts, dict[str, Any], dict[str, Any]]
    ) -> None:
        """A log was made for a new upstream: it is the one, and another could begin as it did."""
        anchors, made = Anchors(self._store, self._keys, upstream), origin.load(folder)
        assert made is not None
        ts, position, snapshot = first
        anchors.add(ts, position, ts, snapshot)
        anchors.make_current(made.log, self._capture, 0)

    def ensure(self, info: UpstreamInfo, held: Sequence[Compare]) -> tuple[Anchors, Unchanged]:
        """See to it that the upstream's log is there; its anchors, and what says that it is it.

        ``held`` says that this capture pulls the upstream. Raises UpstreamLogLost if there is no
        place where one could begin.
        """
        anchors = Anchors(self._store, self._keys, info.name)
        revision, current = anchors.current()
        folder = self._folder(info.name)
        there = origin.load(folder) if (folder / names.MANIFEST).exists() else None
        if there is None and current is None and (folder / names.MANIFEST).exists():
            # A log of an earlier version is as good as any.
            there = Origin.new()
            origin.save(folder, there)
        ours = there is not None and (current is None or current.log == there.log)
        if there is None or not ours or self.older(info.name):
            there = self._replace(info, anchors, folder)
        if current is None or current.log != there.log or current.capture != self._capture:
            if not anchors.make_current(there.log, self._capture, revision, held):
                raise UpstreamMoved("another log took its place", object=f"upstream {info.name}")
            revision, _ = anchors.current()
        return anchors, Unchanged(self._keys.current_log(info.name), revision)

    def older(self, upstream: str) -> bool:
        """Whether the log ends below what is delivered: it is an older copy.

        One that was made anew, and is on its way to what it was made for, is none.
        """
        try:
            made = origin.load(self._folder(upstream))
            with closing(ChangeLog.open(self._folder(upstream))) as log:
                end = max(log.state.resolved_ts, made.highest if made is not None else 0)
        except TidegateError:
            # Whoever opens it to write says what is wrong with it.
            return False
        statuses = map(self._status, self._feeds(upstream))
        return any(max(s.main_ts, s.checkpoint_ts) > end for s in statuses)

    def _replace(self, info: UpstreamInfo, anchors: Anchors, folder: Path) -> Origin:
        needed = self.needed(info.name)
        usable = [a for a in anchors.all() if a.ts <= needed]
        if not usable:
            raise no_place(info.name, needed)
        anchor = usable[-1]
        made, snapshot = self.pinned(info.name, anchor), anchors.schema(anchor)
        log_folders.set_aside(folder.parent)
        log_folders.make(folder.parent)
        self._maker.begin(folder, anchor, snapshot, made)
        log_folders.complete(folder.parent)
        return made

    def needed(self, upstream: str) -> Ts:
        """The lowest checkpoint of the changefeeds that read an upstream."""
        return needed_ts(self._store, self._keys).get(upstream, MAX_TS)

    def pinned(self, upstream: str, anchor: Anchor) -> Origin:
        """Of a log that begins at an anchor: it has the positions of changefeeds where they are."""
        feeds = list(self._feeds(upstream))
        positions = [pair for feed in feeds for pair in self._named(feed, anchor.ts)]
        floor, pins = origin.pinned(positions, anchor.ts)
        _log.warning(
            "upstream %s: its log is made anew from %s (%d positions of changefeeds are known)",
            upstream, to_text(anchor.ts), len(pins),
        )  # fmt: skip
        return Origin.new(floor, pins)

    def _feeds(self, upstream: str) -> Iterator[FeedInfo]:
        _, entries = self._store.range(self._keys.feed_info_prefix)
        for _, feed in readable(entries, FeedInfo):
            if feed.upstream == upstream and feed.state not in ENDED:
                yield feed

    def _status(self, feed: FeedInfo) -> FeedStatus:
        entry = self._store.get(self._keys.feed_status(feed.id))
        return read(entry, FeedStatus) if entry else FeedStatus(checkpoint_ts=feed.start_ts)

    def _named(self, feed: FeedInfo, above: Ts) -> Iterator[tuple[Ts, TransactionName]]:
        """Positions of the changefeed above a ts: of its progress, and of its ledger."""
        status = self._status(feed)
        held = {table: Position(ts) for table, ts in status.tables.items()}
        main = status.main_ts or status.checkpoint_ts
        yield from _named(
            feed, Stand(main, held=held, transactions=named(status.transactions)), above
        )
        shown = self._store.get(self._keys.feed_ddls(feed.id))
        if shown is not None:
            yield from named(read(shown, DdlEntries).transactions).items()
        if feed.snapshot_ts and not feed.rows_delivered:
            # Where the rows are lost with the log it goes on at their end.
            copied = self._store.get(self._keys.copied_rows(feed.id))
            if copied is not None and (rows := read(copied, CopiedRows)).ts == feed.snapshot_ts:
                yield from named(rows.transactions).items()
        config = FeedConfig.model_validate(feed.config)
        try:
            sink = sink_of(feed.sink_uri, config)
            # Who still commits was an owner before us. What it adds is found by the next recovery.
            ledger = sink.driver().delivered(feed.ledger_id, wait=False)
        except TidegateError as e:
            # Others must not wait for it. If its ledger stands elsewhere, its recovery says so, and
            # the log is made anew once more.
            _log.warning("changefeed %s: its ledger could not be read: %s", feed.id, e)
            return
        for position in ledger.values():
            yield from _named(feed, stand(position), above)


def no_place(upstream: str, needed: Ts) -> UpstreamLogLost:
    """No anchor lies at or below what is needed."""
    return UpstreamLogLost(
        "the change log is not there, and the store knows no place for another one to begin"
        f" at or below ts {needed} ({to_text(needed)})",
        object=f"upstream {upstream}",
        hint="put the log's folder back; without it, resume the changefeeds with"
        " --overwrite-checkpoint-ts, or create upstream and changefeeds anew",
    )


def _named(feed: FeedInfo, at: Stand, above: Ts) -> Iterator[tuple[Ts, TransactionName]]:
    if unnamed := [ts for ts in at.unnamed() if ts > above]:
        raise UpstreamLogLost(
            "the change log is not there, and a position does not name its transaction, as an"
            " earlier version wrote it",
            object=f"changefeed {feed.id}",
            position=f"ts {unnamed[0]}",
            hint="put the log's folder back, or resume with --overwrite-checkpoint-ts",
        )
    yield from at.transactions.items()
