"""What operators do to changefeeds: everything is checked before anything is written.

The checks come in TiCDC's order, and the answer is all that fail (decision 83). The target is
asked last, and only where nothing else is wrong: asking it takes longest, and makes what is missing
of its ledger. What is written is one transaction of ``owner.admin``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import cdc
from cdc.base.clock import Clock
from cdc.base.errors import DefiniteError, TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import TransactionName
from cdc.base.refusals import Refusals
from cdc.base.ts import Ts, physical_ms
from cdc.changelog.errors import LogCollected
from cdc.coord import acknowledgements
from cdc.coord.contract import Store
from cdc.coord.expected import Expected
from cdc.coord.expected import check as check_expected
from cdc.coord.feed_config import FeedConfig
from cdc.coord.installation import installation
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    Acknowledgements,
    ConfigChange,
    CopiedRows,
    CopyOrder,
    DdlEntries,
    FeedInfo,
    FeedState,
)
from cdc.coord.stored import read
from cdc.logical.errors import check_keyed
from cdc.schema.snapshot import Schema
from cdc.schema.table import Table
from cdc.snapshot.target_only import TargetOnly
from filter.names import table_name
from filter.traps import traps
from owner import admin, orders, placed_tables, rows_again
from owner.admission import (
    changefeed_id,
    check_target,
    check_times,
    configured_sink,
    newest_incarnation,
)
from owner.config_change import ConfigChangeRefused, check_changeable
from owner.copyable import (
    SnapshotNotPossible,
    absent_tables,
    check_copyable,
    check_copyable_beside,
    check_creatable,
    check_mode_kept,
    check_repairable,
    chosen_tables,
    copied_tables,
)
from owner.eligibility import (
    checked_tables,
    copies_warnings,
    keyless_warnings,
    rule_matcher,
    tables_to_deliver,
)
from owner.ports import KeptLogs, KnownUpstreams
from owner.replica_config import check
from owner.requests import ChangefeedUpdate, NewChangefeed, NewCopy
from owner.rerouting import check_rerouting
from owner.rewinding import lost_stands, rewound
from owner.state import FeedEvent, transition
from owner.sync_points import check_sync_points
from sink.contract import Sink

_log = logging.getLogger("changefeed")
_OLD_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Created:
    """A new changefeed, and what its user should know about it."""

    info: FeedInfo
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class _Checked:
    """A new changefeed in which nothing is wrong, as far as the target is not asked."""

    feed: str
    sink: Sink
    config: FeedConfig
    start_ts: Ts
    schema: Schema
    tables: list[Table]


@dataclass(frozen=True, slots=True)
class Operations:
    """What operators do to changefeeds, over all that it takes.

    ``expected`` refuses a change of what is another one by now: :mod:`cdc.coord.expected`.

    ``forget_metrics`` drops what is measured of a changefeed; ``slots`` says how many transactional
    ids one has ever used.
    """

    store: Store
    keys: Keys
    clock: Clock
    upstreams: KnownUpstreams
    logs: KeptLogs
    forget_metrics: Callable[[str], None]
    slots: Callable[[str], int]

    def create(self, asked: NewChangefeed) -> Created:
        """The new changefeed, written to the store; raises all that is wrong.

        Tables are read once, for all that is asked of them: reading takes the most of it.
        """
        now_ms = self.clock.now_ms()
        checked = self._checked(asked, now_ms)
        feed, sink, config, schema = checked.feed, checked.sink, checked.config, checked.schema
        start_ts, tables, mariadb = checked.start_ts, checked.tables, schema.session.mariadb
        driver, copied = sink.driver(), copied_tables(tables, config)
        self._check_readable(asked.upstream, config, copied)
        absent = absent_tables(tables, schema, config, sink) if copied else frozenset()
        there = [t for t in tables if (t.schema, t.name) not in absent]
        driver.verify(there, mariadb=mariadb)
        if copied:
            first = sink.first_rows(config.snapshot.on_existing)
            first.check(t for t in copied if (t.schema, t.name) not in absent)
        place = installation(self.store, self.keys)
        newest = newest_incarnation(driver, FeedId(place, feed, 0), asked.replaced_installation)
        # Its ledger is a new one: what an older one has left does not count.
        ledger = FeedId(place, feed, max(newest + 1, now_ms))
        info = _new(asked, ledger, config, start_ts, now_ms)
        # Of two that create it at once, one is refused by this.
        admin.create(self.store, self.keys, info, self._named(asked.upstream, start_ts))
        return Created(info, _warnings(start_ts, config, schema, now_ms))

    def _checked(self, asked: NewChangefeed, now_ms: int) -> _Checked:
        """All that can be checked without the target; raises all that is wrong.

        What needs another thing is only asked where that is right.
        """
        refusals = Refusals()
        feed, placed, timed, sink, config = "", False, False, None, None
        with refusals.gathered():
            feed = changefeed_id(asked.id)
        if feed:
            # Told alone: programs that ask twice go by its code.
            admin.check_free(self.store, self.keys, feed)
        with refusals.gathered():
            self.upstreams.info(asked.upstream)
            placed = True
        with refusals.gathered():
            sink = configured_sink(asked.sink_uri, asked.replica_config)
        with refusals.gathered():
            check_times(asked.start_ts, asked.target_ts, now_ms)
            timed = True
        with refusals.gathered():
            config = check(asked.replica_config)
        found: _Checked | None = None
        if placed and timed and config is not None:
            with refusals.gathered():
                start_ts, schema = self._start(
                    asked.upstream, asked.start_ts, asked.target_ts, config
                )
                tables = checked_tables(schema, config)
                if sink is not None:
                    mariadb = schema.session.mariadb
                    check_copyable(tables, config, asked.start_ts, sink, mariadb=mariadb)
                    check_sync_points(config, sink, FeedId("", feed, 0))
                    found = _Checked(feed, sink, config, start_ts, schema, tables)
        refusals.check()
        assert found is not None
        return found

    def resume(
        self, feed: str, overwrite: Ts | Literal["now"] = 0, expected: Expected = None
    ) -> FeedInfo:
        """Resume, from another ts than the checkpoint if one is given.

        Then it is checked as a start is, and the changefeed becomes a new incarnation, whose ledger
        is empty: what was delivered above that ts is delivered once more, what lies between the
        checkpoint and it is left out. The store changes all of that at once; the first recovery of
        the new incarnation fences what still runs of the old one. Raises TransitionRefused unless
        it may be resumed.
        """
        now_ms = self.clock.now_ms()
        info = self._allowed(feed, FeedEvent.RESUME, expected)
        start_ts: Ts | None = None
        newest = 0
        if overwrite != 0:
            start_ts, newest = self._elsewhere(info, 0 if overwrite == "now" else overwrite, now_ms)
        self.upstreams.revive(info.upstream)
        start = self._named(info.upstream, start_ts) if start_ts is not None else None
        return admin.resume(
            self.store,
            self.keys,
            feed,
            now_ms,
            start_ts,
            newest=newest,
            start=start,
            expected=expected,
        )

    def rewind(self, feed: str, expected: Expected = None) -> FeedInfo:
        """Resume from where the sink's ledger stands, which has gone back.

        What it has lost is delivered again; the ledger stays, so what it still has is not. Raises
        RewindRefused if it has not gone back or has nothing to go on from, LogCollected if the log
        does not reach so far, TransitionRefused unless the changefeed may be resumed.
        """
        info = self._allowed(feed, FeedEvent.RESUME, expected)
        known = acknowledgements.read(self.store, self.keys, info.ledger_id)
        ledger = configured_sink(info.sink_uri, info.config).driver().delivered(info.ledger_id)
        stands = lost_stands(feed, known.by_destination(), ledger, info.start_ts)
        after = rewound(admin.status(self.store, self.keys, info), stands)
        try:
            self.logs.check_kept(info.upstream, after.checkpoint_ts)
        except LogCollected as e:
            raise LogCollected(
                e.message,
                object=e.object,
                position=e.position,
                hint="restore a newer copy of the target, or create the changefeed anew with a"
                " snapshot; a log that was made anew, as by a move, reaches no further",
            ) from None
        self.upstreams.revive(info.upstream)
        kept = Acknowledgements.of(known.incarnation, ledger, known.log_ts)
        now_ms = self.clock.now_ms()
        return admin.rewind(self.store, self.keys, feed, now_ms, after, kept, expected)

    def copy_again(self, feed: str, expected: Expected = None) -> FeedInfo:
        """Resume a changefeed whose rows were lost in the middle of their delivery.

        All changes since their ts are delivered, and tables that lack rows are copied again. Raises
        CopyAgainRefused if they are not lost, SnapshotNotPossible if they cannot be copied
        beside changes, LogCollected if the log does not reach so far, TransitionRefused unless the
        changefeed may be resumed.
        """
        info, now_ms = self._allowed(feed, FeedEvent.RESUME, expected), self.clock.now_ms()
        entry = self.store.get(self.keys.copied_rows(feed))
        copied = rows_again.check(info, read(entry, CopiedRows) if entry else None)
        status = admin.status(self.store, self.keys, info)
        self.logs.check_kept(info.upstream, copied.ts)
        config, sink = _config(info), configured_sink(info.sink_uri, info.config)
        _, schema = self.upstreams.schema_at(info.upstream, 0, rule_matcher(config))
        whole = rows_again.delivered(status, copied)
        tables = copied_tables(checked_tables(schema, config), config)
        left = [t for t in tables if t.full_name not in whole]
        order = None
        if left:
            self._check_readable(info.upstream, config, left)
            check_copyable_beside(left, schema, config, sink)
            number = orders.next_number(self.store, self.keys, feed)
            order = rows_again.ordered(info, number, now_ms)
        ledger = [at.ts for at in sink.driver().delivered(info.ledger_id).values()]
        lacking = {t.name for t in copied.tables} - whole
        rows = rows_again.repeated(status, copied, ledger, lacking) if left else 0
        again = rows_again.noted(status, order, rows, now_ms)
        self.upstreams.revive(info.upstream)
        after = rows_again.behind(status, copied)
        made = admin.copy_again(self.store, self.keys, info, now_ms, after, again, order, expected)
        _log.warning(
            "changefeed %s: rows of %d tables that were lost are copied again;"
            " at most %d rows come twice", feed, len(left), rows,
        )  # fmt: skip
        return made

    def update(self, feed: str, asked: ChangefeedUpdate, expected: Expected = None) -> FeedInfo:
        """Change sink, target or configuration of a changefeed.

        One that runs takes configuration and options of the sink, at a ts that the owner chooses.
        Raises TransitionRefused if that may not be, else all that is wrong; the target is asked
        where the rest is right.
        """
        _, info = admin.get(self.store, self.keys, feed, expected)
        running = info.state is FeedState.NORMAL and asked.target_ts is None
        transition(
            info.state, FeedEvent.CHANGE if running else FeedEvent.UPDATE, f"changefeed {feed}"
        )
        changes: dict[str, Any] = {}
        refusals = Refusals()
        if asked.replica_config is not None:
            with refusals.gathered():
                changes["config"] = check(asked.replica_config).model_dump()
        if asked.sink_uri is not None:
            changes["sink_uri"] = asked.sink_uri
            section = info.config if asked.replica_config is None else asked.replica_config
            with refusals.gathered():
                configured_sink(asked.sink_uri, section)
        if asked.target_ts is not None:
            with refusals.gathered():
                check_target(self._checkpoint(info), asked.target_ts)
        refusals.check()
        if running:
            return self._change(info, changes, expected) if changes else info
        if changes:
            self._check_delivery(info, info.model_copy(update=changes))
            changes["change"] = None
        if asked.target_ts is not None:
            changes["target_ts"] = asked.target_ts
        return admin.update(self.store, self.keys, feed, changes, expected)

    def _change(self, info: FeedInfo, changes: Mapping[str, Any], expected: Expected) -> FeedInfo:
        """Have a changefeed that runs take what is new of it, all at one ts."""
        known = info.change
        asked = ConfigChange(
            sink_uri=changes.get("sink_uri", known.sink_uri if known else info.sink_uri),
            config=changes.get("config", known.config if known else info.config),
        )
        entry = self.store.get(self.keys.feed_ddls(info.id))
        status = admin.status(self.store, self.keys, info)
        check_changeable(
            info,
            status,
            read(entry, DdlEntries) if entry else DdlEntries(),
            asked,
            copies_rows=orders.unfinished(self.store, self.keys, info.id),
        )
        after = info.model_copy(update={"sink_uri": asked.sink_uri, "config": asked.config})
        self._check_target(info, after)
        return admin.change(self.store, self.keys, info, asked, expected)

    def copy_rows(self, feed: str, asked: NewCopy) -> CopyOrder:
        """Order rows of tables to be copied, beside the delivery of a changefeed.

        Raises SnapshotNotPossible, ``TG:ErrFilterRuleInvalid`` or what the sink says of it.
        """
        _, info = admin.get(self.store, self.keys, feed)
        if info.change is not None:
            raise ConfigChangeRefused(
                "it is about to take another configuration",
                object=f"changefeed {feed}",
                hint="copy rows when it has",
            )
        config = _config(info)
        ours = {"tables": list(asked.tables), "where": asked.where}
        config = config.model_copy(update={"snapshot": config.snapshot.model_copy(update=ours)})
        _, schema = self.upstreams.schema_at(info.upstream, 0, rule_matcher(config))
        tables = checked_tables(schema, config)
        sink = configured_sink(info.sink_uri, info.config)
        self._check_readable(info.upstream, config, chosen_tables(tables, config))
        check_copyable_beside(tables, schema, config, sink)
        check_repairable(tables, config, TargetOnly(asked.key, asked.target_only))
        return orders.add(self.store, self.keys, feed, asked, self.clock.now_ms())

    def move_table(
        self, feed: str, table: str, capture: str, expected: Expected = None
    ) -> FeedInfo:
        """Have the workers of a capture deliver a table (``schema.table``); any if it is ``any``.

        That is from the next window on. Raises ``TG:ErrTableNameInvalid``, TableMoveRefused,
        CaptureNotFound.
        """
        _, info = admin.get(self.store, self.keys, feed, expected)
        schema, name = table_name(table)
        placed_tables.check_moves(info, schema, name)
        there = placed_tables.check_takes(self.store, self.keys, info, capture)
        full_name = f"{schema}.{name}".lower()
        moved = partial(placed_tables.moved, table=full_name, capture=capture, there=there)
        return admin.move_table(self.store, self.keys, feed, moved, expected)

    def remove(self, feed: str, expected: Expected = None) -> None:
        """Remove a changefeed, then clear its ledger; nothing happens if there is none.

        A sink that cannot be reached does not keep the changefeed alive: a later changefeed of the
        same id clears the ledger when it starts.
        """
        entry = self.store.get(self.keys.feed_info(feed))
        check_expected(entry, expected, f"changefeed {feed}")
        if entry is None:
            return
        admin.remove(self.store, self.keys, feed, expected)
        self.forget_metrics(feed)
        try:
            info = read(entry, FeedInfo)
            driver = configured_sink(info.sink_uri, info.config).driver()
            driver.forget(info.ledger_id, self.slots(feed))
        except TidegateError as e:
            _log.warning("changefeed %s: its ledger was not cleared: %s", feed, e)

    def _allowed(self, feed: str, event: FeedEvent, expected: Expected) -> FeedInfo:
        """The changefeed, in a state in which this may happen to it."""
        _, info = admin.get(self.store, self.keys, feed, expected)
        transition(info.state, event, f"changefeed {feed}")
        return info

    def _start(
        self, upstream: str, start_ts: Ts, target_ts: Ts, config: FeedConfig
    ) -> tuple[Ts, Schema]:
        """Where it starts, which is now if nothing else is asked for, and the schema there."""
        start_ts, schema = self.upstreams.schema_at(upstream, start_ts, rule_matcher(config))
        check_target(start_ts, target_ts)
        return start_ts, schema

    def _check_readable(self, upstream: str, config: FeedConfig, copied: Iterable[Table]) -> None:
        """Raises what forbids to read rows of these tables where the configuration says."""
        if self.upstreams.info(upstream).logical_tables:
            for table in copied:
                check_keyed(table)
        if not config.snapshot.uri:
            return
        try:
            self.upstreams.check_replica(upstream, config.snapshot.uri)
        except DefiniteError as e:
            raise SnapshotNotPossible(e.message, object=e.object, hint=e.hint) from None

    def _named(self, upstream: str, ts: Ts) -> TransactionName | None:
        return self.logs.transaction_at(upstream, ts)

    def _elsewhere(self, info: FeedInfo, asked_ts: Ts, now_ms: int) -> tuple[Ts, int]:
        """Where it starts anew, and the newest incarnation that the sink's ledger knows."""
        config = _config(info)
        check_times(asked_ts, info.target_ts, now_ms)
        start_ts, schema = self._start(info.upstream, asked_ts, info.target_ts, config)
        self.logs.check_kept(info.upstream, start_ts)
        driver = configured_sink(info.sink_uri, info.config).driver()
        driver.verify(tables_to_deliver(schema, config), mariadb=schema.session.mariadb)
        return start_ts, newest_incarnation(driver, info.ledger_id)

    def _check_delivery(self, before: FeedInfo, after: FeedInfo) -> None:
        """Raises what forbids to go on from the checkpoint with another sink or configuration."""
        sink, schema, tables = self._check_target(before, after)
        old_sink = configured_sink(before.sink_uri, before.config)
        old_tables = tables_to_deliver(schema, _config(before))
        checkpoint_ts = self._checkpoint(before)
        check_rerouting(before.ledger_id, old_sink, sink, old_tables, tables, checkpoint_ts)

    def _check_target(self, before: FeedInfo, after: FeedInfo) -> tuple[Sink, Schema, list[Table]]:
        """The sink of a changefeed that is changed, the schema at its checkpoint and its tables.

        Raises what does not fit the tables or the target.
        """
        old, config = _config(before), _config(after)
        check_mode_kept(old, config)
        checkpoint_ts = self._checkpoint(before)
        _, schema = self.upstreams.schema_at(before.upstream, checkpoint_ts)
        sink = configured_sink(after.sink_uri, after.config)
        tables = checked_tables(schema, config)
        check_creatable(config, sink)
        check_sync_points(config, sink, before.ledger_id)
        sink.driver().verify(tables, mariadb=schema.session.mariadb)
        if copied_tables(tables, config):
            sink.first_rows(config.snapshot.on_existing)
        newest_incarnation(sink.driver(), before.ledger_id)
        return sink, schema, tables

    def _checkpoint(self, info: FeedInfo) -> Ts:
        """How far it has come: the schema of its start may have gone with the log."""
        return admin.status(self.store, self.keys, info).checkpoint_ts


def _warnings(start_ts: Ts, config: FeedConfig, schema: Schema, now_ms: int) -> list[str]:
    """What TiCDC warns of: an old start, event filters that catch more, tables without a key."""
    age_s = (now_ms - physical_ms(start_ts)) / 1000
    old = [f"start-ts is {age_s / 3600:.0f} hours ago"] if age_s > _OLD_S else []
    return [
        *old,
        *traps(config),
        *keyless_warnings(schema, config),
        *copies_warnings(schema, config),
    ]


def _new(
    asked: NewChangefeed, ledger: FeedId, config: FeedConfig, start_ts: Ts, now_ms: int
) -> FeedInfo:
    return FeedInfo(
        id=ledger.name,
        installation=ledger.installation,
        incarnation=ledger.incarnation,
        upstream=asked.upstream,
        sink_uri=asked.sink_uri,
        config=config.model_dump(),
        start_ts=start_ts,
        target_ts=asked.target_ts,
        create_time_ms=now_ms,
        creator_version=cdc.__version__,
        epoch=now_ms,
    )


def _config(info: FeedInfo) -> FeedConfig:
    return FeedConfig.model_validate(info.config)
