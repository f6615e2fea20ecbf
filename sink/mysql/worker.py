"""The worker side of a MySQL sink (``sink.contract.Deliverer``): a lane for each bucket."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.rows.batch import Order, RowBatch
from cdc.rows.plan import Matrix, PlanSet
from sink.contract import Destination, Entry, Sent
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.deliverer import MysqlDeliverer, may_binlog
from sink.mysql.errors import MysqlInternal
from sink.mysql.lane import Lane
from sink.mysql.methods import NO_TABLES, Chosen, chosen, job_plan
from sink.mysql.placement import TARGET
from sink.mysql.recheck import Recheck
from sink.mysql.settings import MysqlSettings


class MysqlWorker:
    """Buckets of one changefeed, each over a connection that is opened when it is first needed."""

    def __init__(self, settings: MysqlSettings, feed: FeedId, epoch: int, slot: int) -> None:
        self._settings = settings
        self._feed = feed
        self._epoch = epoch
        self._slot = slot
        self._recheck = Recheck()
        self._binlog: bool | None = None
        self._planned: list[Entry] = []
        self._ways: dict[int, tuple[Entry, Chosen]] = {}
        self._plan = NO_TABLES
        self._lanes: dict[int, Lane] = {}
        self._open: list[int] = []

    def plan(self, entries: Sequence[Entry], *, mariadb: bool, more: bool = False) -> PlanSet:
        """Compare new tables with the target's, and lay them out."""
        every = [*self._planned, *entries] if more else list(entries)
        session = SinkSession(self._settings)
        try:
            with mapped(self._settings.address):
                if self._binlog is None:
                    self._binlog = may_binlog(session)
                ways = self._choose(session, every, self._binlog, mariadb)
                self._plan = job_plan(
                    entries,
                    ways[len(every) - len(entries) :],
                    self._settings,
                    session.target,
                    self._plan if more else NO_TABLES,
                )
                self._planned = every
        finally:
            session.close()
        for lane in self._lanes.values():
            lane.use(self._plan)
        return self._plan.plans

    def _choose(
        self, session: SinkSession, entries: Sequence[Entry], binlog: bool, mariadb: bool
    ) -> list[Chosen]:
        """The way of each; a table in a version that was chosen for is not compared again."""
        known = [self._ways.get(id(entry[1])) for entry in entries]
        new = [e for e, k in zip(entries, known, strict=True) if k is None or k[0][0] is not e[0]]
        at = self._settings.names.target
        self._recheck.keep({at(t.schema, t.name) for t, _, _ in entries})
        if new:
            if not self._settings.changing:
                self._recheck.remember(session, {at(t.schema, t.name) for t, _, _ in new})
            pairs = [(table, stored) for table, stored, _ in new]
            ways = chosen(session, pairs, may_binlog=binlog, upstream_mariadb=mariadb)
            fresh = {id(e[1]): (e, way) for e, way in zip(new, ways, strict=True)}
        else:
            fresh = {}
        self._ways = {id(e[1]): fresh.get(id(e[1])) or self._ways[id(e[1])] for e in entries}
        return [self._ways[id(e[1])][1] for e in entries]

    def begin(
        self, destinations: Collection[Destination], at_once: int | None = None
    ) -> Mapping[Destination, Position]:
        """Lock the buckets' ledger rows; what each of them says. Statements are small anyway."""
        self._open = [bucket for _, bucket in destinations]
        lanes = [self._lane(bucket) for bucket in self._open]
        for lane in lanes:
            lane.begin()
        for lane in lanes:
            lane.wait()
        return {(TARGET, b): lane.position for b, lane in zip(self._open, lanes, strict=True)}

    def deliver(
        self, located: RowBatch, runs: Matrix, order: Order, destination: Destination
    ) -> None:
        """Hand rows to their bucket's thread."""
        self._lanes[destination[1]].deliver(located, runs, order)

    def watermark(self, destination: Destination, ts: Ts, now_ms: int) -> None:
        """The ledger says how far a database is complete."""
        raise MysqlInternal("a watermark for a database", object=str(self._feed))

    def commit(self, ledger: Mapping[Destination, Position]) -> Sent:
        """Commit each bucket with its new position; one that has none gets no rows either."""
        lanes = {bucket: self._lanes[bucket] for bucket in self._open}
        for bucket, lane in lanes.items():
            at = (TARGET, bucket)
            lane.commit({at: ledger[at]} if at in ledger else {})
        for lane in lanes.values():
            lane.wait()
        size = sum(lane.bytes for lane in lanes.values())
        statements = sum(lane.statements for lane in lanes.values())
        return Sent(sum(lane.rows for lane in lanes.values()), size, size, statements)

    def abort(self) -> None:
        """Give the window up in every bucket."""
        for lane in self._lanes.values():
            lane.abort()
        self._lanes.clear()

    def _lane(self, bucket: int) -> Lane:
        if bucket not in self._lanes:
            deliverer = MysqlDeliverer(
                self._settings,
                self._feed,
                self._epoch,
                bucket,
                self._slot,
                recheck=self._recheck,
                binlog=bool(self._binlog),
            )
            lane = self._lanes[bucket] = Lane(deliverer)
            lane.use(self._plan)
        return self._lanes[bucket]
