"""The processor of a capture: runs the changefeeds that the owner assigns to it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.parts import Parts
from cdc.base.position import TransactionName
from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.coord.contract import Put, Store, StoredKey, Unchanged, WatchCompacted
from cdc.coord.feed_config import FeedConfig
from cdc.coord.grouped_puts import GroupedPuts
from cdc.coord.keys import Keys, last
from cdc.coord.messages import (
    Assignment,
    CopiedRows,
    CopyReport,
    ErrorInfo,
    FeedInfo,
    FeedStatus,
    Report,
    RowsPiece,
    UpstreamInfo,
    named,
)
from cdc.coord.stored import StoredValueUnreadable, read, readable
from cdc.snapshot.log import open_log
from cdc.snapshot.servers import SourceServers
from cdc.source.errors import UpstreamGone
from cdc.source.settings import SourceSettings
from processor.acknowledged import Acknowledged
from processor.copying import Copying, copied_rows, remove_delivered, remove_rows
from processor.feed import Feed
from processor.feed_lines import FeedLines
from processor.jobs import JobRunner
from processor.log_follower import LogFollower
from processor.settings import ProcessorSettings
from processor.table_copying import piece_rows, remove_pieces
from processor.window_size import WindowSize

_log = logging.getLogger("processor")
_RETRY_S = 1.0
# Changefeeds that work at once in this process: of what they do, most holds Python's lock.
_AT_ONCE = 8


class ProcessorRunner:
    """Watches the assignments of ``capture_id``; one :class:`processor.feed.Feed` for each.

    ``log_folder`` names the folder of an upstream's log; a reader is opened for each changefeed.
    ``log_disagrees`` is told of an upstream whose log must be pulled anew.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        capture_id: str,
        log_folder: Callable[[str], Path],
        jobs: JobRunner,
        settings: ProcessorSettings,
        clock: Clock,
        parts: Parts | None = None,
        log_disagrees: Callable[[str], None] = lambda _: None,
        source: SourceSettings | None = None,
        across: JobRunner | None = None,
    ) -> None:
        self._store = store
        self._source = source or SourceSettings()
        self._log_disagrees = log_disagrees
        self._reports = GroupedPuts(store)
        self._keys = keys
        self._capture = capture_id
        self._log_folder = log_folder
        self._jobs = jobs
        self._across = across or jobs
        self._settings = settings
        self._clock = clock
        self._feeds: dict[str, Feed | Copying] = {}
        # By changefeed the assignment that was seen last, and its revision.
        self._known: dict[str, tuple[int, Assignment]] = {}
        self._followers: dict[str, LogFollower] = {}
        # The log's folder of each changefeed that was run here.
        self._logs: dict[str, Path] = {}
        self._swept: set[Path] = set()
        # Changefeeds that do not run, and have nothing here of the rows they began with.
        self._given_back: set[str] = set()
        # What a changefeed has learned of its sink holds for its next epoch.
        self._sizes: dict[str, WindowSize] = {}
        self._lines = FeedLines.of(_AT_ONCE)
        self._stopping = threading.Event()
        self._prefix = keys.assignments_prefix(capture_id)
        self._watch = store.watch(self._prefix, store.revision() + 1)
        self._parts = parts or Parts()
        self._timeout_s: float | None = 0.0
        self._part = self._parts.make("processor", self._look_on, self._stopping)
        self._tending = self._parts.make("processor-workers", self._tend_workers, self._stopping)

    def start(self) -> None:
        """Begin to take assignments."""
        self._part.start()
        if self._settings.keep_workers_s:
            self._tending.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop all changefeeds; windows under way get ``timeout_s`` to end."""
        self._stopping.set()
        self._watch.close()
        self._part.join(timeout_s)
        self._tending.join(timeout_s)
        for follower in self._followers.values():
            follower.stop()
        for feed in self._feeds.values():
            threading.Thread(target=feed.stop, args=(timeout_s,), daemon=True).start()
        for feed in self._feeds.values():
            feed.stop(timeout_s)
        for follower in self._followers.values():
            follower.join(timeout_s)

    @property
    def running(self) -> list[str]:
        """The changefeeds that are run at the moment."""
        return list(self._feeds)

    def _look_on(self) -> bool:
        try:
            self._watch.next(self._timeout_s)
        except WatchCompacted:
            self._watch = self._store.watch(self._prefix, self._store.revision() + 1)
        if self._stopping.is_set():
            return False
        self._timeout_s = _RETRY_S
        if self._turn():
            self._timeout_s = None
        return True

    def _tend_workers(self) -> bool:
        if self._stopping.wait(self._settings.keep_workers_s):
            return False
        try:
            self._jobs.tend(list(self._feeds))
        except Exception as e:
            # What has died meanwhile took this with it; the next window deals with that.
            _log.info("idle workers were not kept: %s", (str(e).splitlines() or [""])[0][:300])
        return True

    def _turn(self) -> bool:
        """Bring the changefeeds in line with the assignments; False if one must be tried again."""
        _, entries = self._store.range(self._prefix)
        wanted = self._assigned(entries)
        # The owner writes an assignment that cannot be read anew; until then nothing changes.
        unknown = {last(e.key) for e in entries} - wanted.keys()
        for name in self._feeds.keys() - unknown:
            assignment = wanted.get(name)
            feed = self._feeds[name]
            if assignment is None or not assignment.run or assignment.epoch != feed.epoch:
                feed.stop(self._settings.stop_timeout_s)
                if isinstance(feed, Feed):
                    self._sizes[name] = feed.window_size
                del self._feeds[name]
        # Removed, or run by another capture; only of the former nothing is needed any more.
        for name in self._logs.keys() - wanted.keys() - unknown:
            remove_rows(self._logs.pop(name), self._exists)
        done = not unknown
        for name, assignment in wanted.items():
            if not assignment.run:
                if name not in self._logs:
                    self._note_log(name)
                if assignment.rows_delivered and name not in self._given_back:
                    self._give_back(name)
                continue
            self._given_back.discard(name)
            if name in self._feeds:
                self._feeds[name].update(assignment)
            else:
                done = self._start(name, assignment) and done
        for upstream, follower in list(self._followers.items()):
            if not follower.keep(set(self._feeds)):
                follower.stop()
                follower.join(0)
                del self._followers[upstream]
        return done

    def _assigned(self, entries: Sequence[StoredKey]) -> dict[str, Assignment]:
        """By changefeed the assignments that can be read; one that has not changed is the same."""
        revisions = {name: revision for name, (revision, _) in self._known.items()}
        new = (e for e in entries if revisions.get(last(e.key)) != e.mod_revision)
        there = {last(e.key): e.mod_revision for e in entries}
        kept = {n: known for n, known in self._known.items() if there.get(n) == known[0]}
        found = {last(e.key): (e.mod_revision, a) for e, a in readable(new, Assignment)}
        self._known = kept | found
        return {name: assignment for name, (_, assignment) in self._known.items()}

    def _start(self, name: str, assignment: Assignment) -> bool:
        entry = self._store.get(self._keys.feed_info(name))
        if entry is None:
            return True
        try:
            info = read(entry, FeedInfo)
        except StoredValueUnreadable:
            # The owner shows it, and comes back with another assignment once it can be read.
            return True
        if info.epoch != assignment.epoch:
            return True
        try:
            folder = self._log_folder(info.upstream)
            lowest = min([assignment.checkpoint_ts, *assignment.tables.values()])
            rows = copied_rows(folder, info, lowest) if info.snapshot_ts else None
            if (piece := assignment.piece) is not None:
                rows = piece_rows(folder, info, piece)
                if rows is None:
                    self._publish(self._lost_report(assignment, piece))
                    return True
            log = open_log(folder, rows)
            self._know_log(name, folder)
        except TidegateError as e:
            _log.warning("changefeed %s: %s", name, e)
            if e.kind is not ErrorKind.TRANSIENT:
                self._publish(self._error_report(assignment, e))
                return True
            return False
        if info.copies:
            # What a changefeed has left that was removed while it did not run.
            remove_rows(folder, self._exists)
            self._feeds[name] = self._copying(info, assignment, log, folder)
            self._feeds[name].start()
            return True
        if assignment.piece is None:
            remove_pieces(folder, info)
        known = Acknowledged(self._store, self._keys, info.ledger_id, self._clock)
        feed = Feed(
            info, assignment, log, folder, self._jobs_of(info), self._settings,
            self._register_slots, self._publish, self._clock, known, self._sizes.pop(name, None),
            self._parts, self._names(name), self._log_disagrees, rows,
            self._server(info), partial(self._copied_rows, name), self._lines,
        )  # fmt: skip
        self._feeds[name] = feed
        feed.start()
        follower = self._followers.get(info.upstream)
        if follower is None:
            follower = LogFollower(info.upstream, folder, self._parts, self._clock)
            self._followers[info.upstream] = follower
            follower.start()
        follower.add(name, feed)
        return True

    def _jobs_of(self, info: FeedInfo) -> JobRunner:
        """Whose workers deliver a changefeed."""
        scheduler = FeedConfig.model_validate(info.config).scheduler
        return self._across if scheduler.enable_table_across_nodes else self._jobs

    def _note_log(self, name: str) -> None:
        """Know where the log of a changefeed lies that does not run."""
        entry = self._store.get(self._keys.feed_info(name))
        try:
            folder = self._log_folder(read(entry, FeedInfo).upstream) if entry is not None else None
        except TidegateError:
            # The log is still looked for, or the owner has to see to the changefeed.
            return
        if folder is not None:
            self._know_log(name, folder)

    def _know_log(self, name: str, folder: Path) -> None:
        """Where a log is met first, what was copied for changefeeds goes that are no more.

        They may have been removed while nothing ran here.
        """
        if folder not in self._swept:
            remove_rows(folder, self._exists)
            self._swept.add(folder)
        self._logs[name] = folder

    def _give_back(self, name: str) -> None:
        """Remove the rows that a changefeed began with: it may have ended before its processor."""
        entry = self._store.get(self._keys.feed_info(name))
        try:
            if entry is not None:
                remove_delivered(self._log_folder(read(entry, FeedInfo).upstream), name)
        except TidegateError as e:
            _log.info("changefeed %s: its rows stay for now: %s", name, e)
            return
        self._given_back.add(name)

    def _exists(self, feed: str) -> bool:
        return self._store.get(self._keys.feed_info(feed)) is not None

    def _server(self, info: FeedInfo) -> Callable[[threading.Event], SourceServers]:
        """Opens the server that rows are read from."""

        def newest() -> UpstreamInfo:
            entry = self._store.get(self._keys.upstream_info(info.upstream))
            if entry is None:
                raise UpstreamGone("it is not registered", object=f"upstream {info.upstream}")
            return read(entry, UpstreamInfo)

        def server(stop: threading.Event) -> SourceServers:
            replica = FeedConfig.model_validate(info.config).snapshot.uri
            return SourceServers(newest(), self._source, stop, replica, newest)

        return server

    def _copying(
        self, info: FeedInfo, assignment: Assignment, log: ChangeLog, folder: Path
    ) -> Copying:
        return Copying(
            info, assignment, log, folder, self._jobs, self._settings, self._server(info),
            self._publish, self._clock, self._parts,
        )  # fmt: skip

    def _names(self, feed: str) -> dict[Ts, TransactionName]:
        """What the upstream calls the transactions at which the changefeed's progress stands."""
        entry = self._store.get(self._keys.feed_status(feed))
        return named(read(entry, FeedStatus).transactions) if entry else {}

    def _copied_rows(self, feed: str) -> CopiedRows | None:
        """What the changefeed has begun with, if that was written down."""
        entry = self._store.get(self._keys.copied_rows(feed))
        return read(entry, CopiedRows) if entry else None

    def _lost_report(self, assignment: Assignment, piece: RowsPiece) -> Report:
        return Report(
            feed=assignment.feed,
            epoch=assignment.epoch,
            checkpoint_ts=assignment.checkpoint_ts,
            table_checkpoints=assignment.tables,
            copied=CopyReport(id=piece.id, lost=True),
        )

    def _error_report(self, assignment: Assignment, error: TidegateError) -> Report:
        return Report(
            feed=assignment.feed,
            epoch=assignment.epoch,
            checkpoint_ts=assignment.checkpoint_ts,
            # The owner takes tables that are not named to stand where the others do.
            table_checkpoints=assignment.tables,
            error=ErrorInfo.of(error, self._clock.now_ms()),
        )

    def _publish(self, report: Report) -> None:
        key = self._keys.report(self._capture, report.feed)
        self._reports.put(key, report.model_dump_json().encode())

    def _register_slots(self, feed: str, count: int) -> int:
        """Write down how many transactional ids the changefeed uses, before their first use."""
        key = self._keys.slots(feed)
        while True:
            entry = self._store.get(key)
            known = int(json.loads(entry.value)["slots"]) if entry else 0
            if known >= count:
                return known
            revision = entry.mod_revision if entry else 0
            value = json.dumps({"slots": count}).encode()
            if self._store.txn([Unchanged(key, revision)], [Put(key, value)]):
                return count
