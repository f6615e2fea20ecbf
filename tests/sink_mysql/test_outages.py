"""Targets that are full, read-only, replaced, or hold what a vanished worker has left behind."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.position import START, Position
from cdc.rows.batch import RowBatch
from cdc.rows.route import Route
from sink.mysql.connection import SinkSession
from sink.mysql.deliverer import TARGET, DeliverState, MysqlDeliverer
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import MysqlLedgerLost, MysqlLockWait, MysqlReadOnly, MysqlStorage
from sink.mysql.methods import chosen, job_plan
from sink.mysql.settings import MysqlSettings
from sink.mysql.sql_cutter import SqlCutter
from tests import servers
from tests.codec.binlog_rows import TS
from tests.servers.proxy import Proxy
from tests.sink_mysql.replay import FEED, Replay, content, recovered, same_schema, settings_of

_MARIADB, _MYSQL = "mariadb-11.4", "mysql-8.0"


def _rows(source: Any, target: Any, schema: str, count: int, *more: str) -> Replay:
    """Transactions of one row each, inserted upstream; the target's tables are empty."""
    source.execute(
        f"create database {schema} charset utf8mb4 collate utf8mb4_general_ci",
        f"use {schema}",
        f"create table {schema}.t (id int primary key, v varchar(2000), n int unique)",
        "flush binary logs",
        *(f"insert into {schema}.t values ({i}, repeat('v', 1500), {i})" for i in range(count)),
        *more,
    )
    same_schema(source, target, schema)
    replay = Replay.of(source, schema)
    replay.stamp()
    return replay


def _window(deliverer: MysqlDeliverer, replay: Replay, after: int) -> None:
    """Deliver all rows behind a ts."""
    deliverer.begin()
    replay.send(deliverer, after=after)
    deliverer.commit({(TARGET, 0): Position(replay.last)})


def _through(proxy: Proxy, query: str = "") -> MysqlSettings:
    return MysqlSettings.parse(f"mysql://root@127.0.0.1:{proxy.port}/{query}")


@contextmanager
def _full_disk(server: Any) -> Iterator[None]:
    """Let no file of the server grow beyond the largest that it has; needs no root."""
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    largest = max(file.stat().st_size for file in server.datadir.rglob("*"))
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))


def test_disk_full(database: Any, fresh_name: str) -> None:
    source = database(_MARIADB)
    with servers.database("mariadb-11.8") as target:
        # In the binlog it is more than any file has now; in the table it takes no room.
        more = [f"update {fresh_name}.t set n = n + 1000"] * 80
        replay = _rows(source, target, fresh_name, 100, *more)
        recovered(target)
        deliverer = MysqlDeliverer(settings_of(target), FEED, 1)
        with _full_disk(target), pytest.raises(TidegateError) as e:
            _window(deliverer, replay, START.ts)
        assert isinstance(e.value, MysqlStorage), e.value
        assert e.value.kind is ErrorKind.TRANSIENT
        assert deliverer.state is DeliverState.BROKEN
        # What the server could not write is not there, and not in the ledger either.
        assert recovered(target, epoch=2) == {}
        assert content(target, fresh_name) == {"t": []}
        again = MysqlDeliverer(settings_of(target), FEED, 2)
        _window(again, replay, START.ts)
        again.close()
        assert content(target, fresh_name) == content(source, fresh_name)


def test_read_only_in_the_middle(database: Any, fresh_name: str) -> None:
    source, target = database(_MARIADB), database(_MYSQL)
    replay = _rows(source, target, fresh_name, 6)
    target.execute("drop database if exists tidegate")
    recovered(target)
    deliverer = MysqlDeliverer(settings_of(target), FEED, 1)
    deliverer.begin()
    replay.send(deliverer, upto=TS + 2)
    deliverer.commit({(TARGET, 0): Position(TS + 2)})
    target.execute("set global super_read_only = 1")
    try:
        with pytest.raises(MysqlReadOnly) as e:
            _window(deliverer, replay, TS + 2)
        assert e.value.kind is ErrorKind.TRANSIENT
    finally:
        target.execute("set global super_read_only = 0", "set global read_only = 0")
    assert recovered(target, epoch=2) == {0: Position(TS + 2)}
    again = MysqlDeliverer(settings_of(target), FEED, 2)
    _window(again, replay, TS + 2)
    again.close()
    assert content(target, fresh_name) == content(source, fresh_name)


def _copy(source: Any, copy: Any, *schemas: str) -> None:
    """Make the second server what a replica of the first is."""
    for schema in schemas:
        same_schema(source, copy, schema)
        for (table,) in source.execute(f"show tables in {schema}"):
            rows = source.execute(f"select * from {schema}.{table}")
            with copy.connect() as connection, connection.cursor() as cursor:
                marks = ", ".join(["%s"] * len(rows[0])) if rows else ""
                cursor.executemany(f"insert into {schema}.{table} values ({marks})", rows)


def test_failover_behind_one_address(database: Any, fresh_name: str) -> None:
    """A copy that has the ledger goes on where the other stood; one without it is refused."""
    source, first = database(_MARIADB), database("mariadb-11.8")
    first.execute("drop database if exists tidegate")
    replay = _rows(source, first, fresh_name, 9)
    with servers.database("mariadb-11.8") as second, Proxy(first.port) as proxy:
        driver = MysqlDriver(_through(proxy))
        driver.recover(FEED, 1, 1, (), START)
        deliverer = MysqlDeliverer(_through(proxy), FEED, 1)
        deliverer.begin()
        replay.send(deliverer, upto=TS + 4)
        deliverer.commit({(TARGET, 0): Position(TS + 4)})
        # The other server has the tables, even with all rows, but no ledger.
        _copy(first, second, fresh_name)
        proxy.switch(second.port)
        with pytest.raises(MysqlLedgerLost) as e:
            deliverer.begin()
        assert e.value.kind is ErrorKind.DEFINITE
        assert "--overwrite-checkpoint-ts" in e.value.hint
        assert deliverer.state is DeliverState.BROKEN
        with pytest.raises(MysqlLedgerLost):
            MysqlDriver(_through(proxy)).recover(FEED, 2, 1, (), Position(TS + 4), begun=True)
        # Now it has, as a replica would.
        second.execute("drop database tidegate")
        _copy(first, second, "tidegate")
        found = MysqlDriver(_through(proxy)).recover(FEED, 2, 1, (), Position(TS + 4), begun=True)
        assert found.positions == {(TARGET, 0): Position(TS + 4)}
        other = MysqlDeliverer(_through(proxy), FEED, 2)
        _window(other, replay, TS + 4)
        other.close()
        assert content(second, fresh_name) == content(source, fresh_name)


@pytest.mark.parametrize("name", [_MARIADB, _MYSQL])
def test_a_vanished_workers_locks(database: Any, fresh_name: str, name: str) -> None:
    # The server is taken for gone after as long as others are waited for, or sooner.
    hasty = "?read-timeout=2s"
    source, target = database("mariadb-11.8"), database(name)
    target.execute("drop database if exists tidegate")
    replay = _rows(source, target, fresh_name, 5)
    MysqlDriver(settings_of(target)).recover(FEED, 1, 1, (), START)
    with Proxy(target.port) as proxy:
        # Another worker has been in the bucket before, and keeps its connection.
        idle = MysqlDeliverer(settings_of(target), FEED, 1)
        gone = MysqlDeliverer(_through(proxy), FEED, 1, slot=1)
        gone.begin()
        replay.send(gone)
        proxy.hold_answers()
        gone.close()
        # It may be frozen: what it has committed is known all the same, and that is nothing.
        assert MysqlDriver(settings_of(target)).delivered(FEED, wait=False) == {}
        MysqlDriver(settings_of(target, hasty)).recover(FEED, 2, 2, (), START)
        proxy.pass_answers()
        idle.close()
    deliverer = MysqlDeliverer(settings_of(target), FEED, 2)
    _window(deliverer, replay, START.ts)
    assert content(target, fresh_name) == content(source, fresh_name)
    # Whoever else holds the ledger is left alone.
    with target.connect(autocommit=False) as holder, holder.cursor() as cursor:
        cursor.execute("select * from tidegate.ledger for update")
        with pytest.raises(MysqlLockWait):
            MysqlDriver(settings_of(target, hasty)).recover(FEED, 3, 1, (), START)
        cursor.execute("select 1")
        holder.rollback()
    deliverer.close()


@dataclass(frozen=True)
class _AsText:
    """All rows of a replay as SQL text."""

    located: RowBatch
    cutter: SqlCutter

    @classmethod
    def of(cls, replay: Replay, settings: MysqlSettings) -> _AsText:
        session = SinkSession(settings)
        entries = [(table, stored, Route()) for table, stored, _ in replay.entries]
        pairs = [(table, stored) for table, stored, _ in entries]
        ways = chosen(session, pairs, may_binlog=False, upstream_mariadb=replay.mariadb)
        plan = job_plan(entries, ways, settings, session.target)
        session.close()
        assert plan.sql is not None
        located = RowBatch(replay.buf, replay.runs, 10_000, plan.plans, "test.binlog")
        return cls(located, SqlCutter(plan.sql))

    def apply(self, deliverer: MysqlDeliverer, replay: Replay) -> None:
        """Send all of them."""
        order = np.arange(len(self.located.refs))
        deliverer.apply(self.cutter, self.located, replay.runs, order)


@pytest.mark.parametrize("name", [_MARIADB, _MYSQL])
def test_updates_wait_for_no_answer(database: Any, fresh_name: str, name: str) -> None:
    """Statements of one row each go out while none of them has been answered."""
    source, target = database("mariadb-11.8"), database(name)
    target.execute("drop database if exists tidegate")
    replay = _rows(
        source, target, fresh_name, 0,
        f"insert into {fresh_name}.t select seq, 'v', seq from seq_1_to_60",
        f"update {fresh_name}.t set n = n + 1000",
    )  # fmt: skip
    recovered(target)
    with Proxy(target.port) as proxy:
        rows = _AsText.of(replay, _through(proxy))
        deliverer = MysqlDeliverer(_through(proxy), FEED, 1, binlog=False)
        deliverer.begin()
        proxy.hold_answers()
        sender = threading.Thread(target=rows.apply, args=(deliverer, replay))
        sender.start()
        sender.join(60)
        assert not sender.is_alive(), "a statement waited for an answer"
        proxy.pass_answers()
        deliverer.commit({(TARGET, 0): Position(replay.last)})
        deliverer.close()
    assert content(target, fresh_name) == content(source, fresh_name)


@pytest.mark.parametrize("name", [_MARIADB, _MYSQL])
def test_at_least_once(database: Any, fresh_name: str, name: str) -> None:
    """Without a ledger all rows may come again, and the same is there."""
    source, target = database("mariadb-11.8"), database(name)
    target.execute("drop database if exists tidegate")
    replay = _rows(
        source, target, fresh_name, 20,
        f"update {fresh_name}.t set n = n + 1000 where id < 9",
        f"update {fresh_name}.t set id = id + 100 where id in (3, 11)",
        f"delete from {fresh_name}.t where id in (4, 12, 111)",
    )  # fmt: skip
    settings = settings_of(target, "?exactly-once=false")
    driver = MysqlDriver(settings)
    driver.verify([table for table, _, _ in replay.entries], mariadb=True)
    rows = _AsText.of(replay, settings)
    for epoch in (1, 2):
        found = driver.recover(FEED, epoch, 1, (), START, begun=True)
        assert found.positions == driver.delivered(FEED) == {}
        deliverer = MysqlDeliverer(settings, FEED, epoch, binlog=False)
        deliverer.begin()
        assert deliverer.position == START
        rows.apply(deliverer, replay)
        deliverer.commit({(TARGET, 0): Position(replay.last)})
        deliverer.close()
        assert content(target, fresh_name) == content(source, fresh_name)
    driver.forget(FEED, 1)
    assert target.execute("show databases like 'tidegate'") == []
