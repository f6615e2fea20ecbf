"""Rows out of a real server's binlog, delivered to another server by the sink's worker side."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.schema.table import Table
from sink.mysql import ledger
from sink.mysql.connection import SinkSession
from sink.mysql.deliverer import TARGET, MysqlDeliverer
from sink.mysql.events import ApplyPlan
from sink.mysql.settings import MysqlSettings
from tests.codec.binlog_rows import TS, runs_of, table_of

FEED = FeedId("tests", "feed", 1)


def settings_of(server: Any, query: str = "", **config: Any) -> MysqlSettings:
    """Settings that reach a test server as root."""
    return MysqlSettings.parse(f"{server.uri()}/{query}", config)


def recovered(server: Any, feed: FeedId = FEED, epoch: int = 1) -> dict[int, Position]:
    """A recovery as the driver does it."""
    session = SinkSession(settings_of(server))
    try:
        ledger.create(session)
        return ledger.recover(session, feed, epoch, [0])
    finally:
        session.close()


def same_schema(source: Any, target: Any, schema: str) -> None:
    """Make the schema and its tables at the target as they are at the source."""
    target.execute(f"drop database if exists `{schema}`")
    target.execute(f"create database if not exists `{schema}` character set utf8mb4")
    for (name,) in source.execute(f"show tables in `{schema}`"):
        sql = source.execute(f"show create table `{schema}`.`{name}`")[0][1]
        target.execute(
            "set sql_mode='', foreign_key_checks=0, time_zone='+00:00'", f"use `{schema}`", sql
        )


def changed_twice(table: str) -> tuple[str, ...]:
    """Statements that change rows again: ``(id, n, c)``, of which ``n`` is in an index."""
    rows = ", ".join(f"({i}, 0, {i % 3})" for i in range(12))
    ids = ("1, 2, 3, 5", "2, 5", "1, 2, 3, 4, 5", "11, 2")
    changes = (f"update {table} set n = {100 + n} where id in ({i})" for n, i in enumerate(ids))
    return (f"insert into {table} values {rows}", *changes)


class Replay:
    """Rows of one binlog file for some tables (by ``schema.name``). Picklable."""

    def __init__(self, data: bytes, tables: dict[str, Table], *, mariadb: bool) -> None:
        runs, self.entries = runs_of(data, tables)
        self.runs = np.array(runs, np.int64).reshape(-1, L.RUN_SIZE)
        self.buf = np.frombuffer(data, np.uint8)
        self.mariadb = mariadb

    @classmethod
    def of(cls, source: Any, schema: str) -> Replay:
        """The newest binlog file of a server, for all tables of a schema."""
        names = [row[0] for row in source.execute(f"show tables in `{schema}`")]
        tables = {f"{schema}.{name}": table_of(source, schema, name) for name in names}
        return cls(source.binlogs()[-1].read_bytes(), tables, mariadb=source.kind == "mariadb")

    def stamp(self) -> None:
        """Give each run (an event) a commit ts of its own."""
        self.runs[:, L.RUN_TS] = TS + np.arange(len(self.runs))

    @property
    def last(self) -> int:
        """The commit ts of the last event."""
        return int(self.runs[-1, L.RUN_TS])

    def plan(self, deliverer: MysqlDeliverer) -> ApplyPlan:
        """What the target allows of the tables."""
        entries = [(t, m, (t.schema, t.name)) for t, m, _ in self.entries]
        return deliverer.plan(entries, upstream_mariadb=self.mariadb)

    def located(self, plan: ApplyPlan) -> RowBatch:
        """References to all rows."""
        return RowBatch(self.buf, self.runs, 200_000, plan.plans, "test.binlog")

    def send(
        self,
        deliverer: MysqlDeliverer,
        limit: int | None = None,
        after: int = 0,
        upto: int = 1 << 62,
    ) -> int:
        """Send the rows with ``after < ts <= upto`` into the open window; payloads it took.

        With a limit the payloads are cut here and handed to ``send``.
        """
        plan = self.plan(deliverer)
        located = self.located(plan)
        ts = located.refs[:, L.R_TS]
        order = np.flatnonzero((ts > after) & (ts <= upto))
        if limit is None:
            deliverer.apply(deliverer.cutter(plan), located, self.runs, order)
            return 1
        batches = 0
        for batch in deliverer.cutter(plan).batches(
            located,
            self.runs,
            order,
            limit=limit,
            max_message=deliverer.message_limit(TARGET),
        ):
            deliverer.send(TARGET, 0, batch.data, batch.rows, batch.base_ms, batch.max_ms)
            batches += 1
        return batches

    def deliver(self, target: Any, limit: int | None = None, **config: Any) -> int:
        """Forget what was, recover, and deliver all rows in one window; payloads it took."""
        epoch = 1
        target.execute("drop database if exists tidegate")
        recovered(target, epoch=epoch)
        deliverer = MysqlDeliverer(settings_of(target, **config), FEED, epoch)
        try:
            deliverer.begin()
            batches = self.send(deliverer, limit)
            deliverer.commit({(TARGET, 0): Position(TS)})
        finally:
            deliverer.close()
        return batches


def content(server: Any, schema: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every column of every row as HEX, by table; rows in the order of their texts."""
    found = {}
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set time_zone='+00:00'")
        cursor.execute(
            "select table_name, column_name, data_type from information_schema.columns"
            f" where table_schema = '{schema}' order by table_name, ordinal_position"
        )
        columns: dict[str, list[str]] = {}
        for name, column, kind in cursor.fetchall():
            columns.setdefault(name, []).append(_hex(column, kind))
        for name, shown in columns.items():
            cursor.execute(f"select {', '.join(shown)} from `{schema}`.`{name}`")
            found[name] = sorted(cursor.fetchall(), key=repr)
    return found


def _hex(column: str, kind: str) -> str:
    if kind in ("float", "double"):
        # A float's own text is rounded; that of a double is exact, and a float is one.
        return (
            f"concat(if(1, `{column}` + 0e0, null))" if kind == "float" else f"concat(`{column}`)"
        )
    if kind in ("geometry", "point", "vector") or "blob" in kind or "binary" in kind:
        return f"hex(`{column}`)"
    return f"hex(concat(`{column}`))"
