"""Killed before and after each step, a change is carried out exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pymysql
import pytest

from sink.errors import FencedEpoch
from sink.mysql import connection
from sink.mysql.ddl import carrying, execution, fresh, witness
from sink.mysql.ddl.changer import MysqlChanger
from sink.mysql.ddl.decide import Rest
from sink.mysql.ddl.errors import DDLInterrupted, DDLOutcomeUnknown
from sink.mysql.settings import MysqlSettings
from sink.schema_change import Recorded, SchemaChange
from tests import servers
from tests.servers.proxy import Proxy
from tests.sink_mysql_ddl.stopping import FEED, POINTS, Stopping, changer
from tests.sink_mysql_ddl.upstream import Upstream
from tests.waiting import PATIENCE

_SERVERS = ("mariadb-11.4", "mysql-8.0")
_TABLES = (
    "create table {s}.a (id int primary key, v varchar(20))",
    "create table {s}.b (id int primary key, v varchar(20))",
    "create table {s}.c (id int primary key, v varchar(20), w int)",
    "create table {s}.d (id int primary key, v varchar(20))",
    "create table {s}.e (id int primary key)",
    "create table {s}.q (id int primary key)",
    "create table {s}.p (id int primary key) partition by range (id)"
    " (partition p0 values less than (10), partition p1 values less than (20))",
)
_ROWS = (
    "insert into {s}.a values (1, 'a')",
    "insert into {s}.b values (2, 'b')",
    "insert into {s}.c values (3, 'c', 3)",
    "insert into {s}.e values (1), (2)",
    "insert into {s}.q values (3)",
    "insert into {s}.p values (1), (2), (11)",
)
# Twice, each of them fails or leaves something else; most in what definitions do not show.
_STATEMENTS = (
    "alter table {s}.d add n int not null default 4",
    "rename table {s}.a to {s}.t, {s}.b to {s}.a, {s}.t to {s}.b",
    "rename table {s}.a to {s}.t, {s}.c to {s}.a, {s}.t to {s}.c",
    "alter table {s}.p exchange partition p0 with table {s}.q",
    "alter table {s}.d add check (id > -5)",
    "alter table {s}.d add key (v)",
    "alter table {s}.d rename column n to m, rename to {s}.dd",
    "truncate table {s}.e",
    "create table {s}.f (id int primary key, p int, foreign key (p) references {s}.q (id))",
    "alter table {s}.f add foreign key (p) references {s}.e (id)",
    "create table {s}.l like {s}.dd",
    "alter table {s}.p drop partition p1",
    "drop table {s}.f, {s}.c, {s}.l",
    "create database {s}_2 character set latin1",
    "alter database {s}_2 character set utf8mb4",
    "drop database {s}_2",
)


def content(db: servers.Database, schema: str) -> dict[str, Any]:
    """Definitions and rows of all tables."""
    names = [row[0] for row in db.execute(f"show tables from {schema}")]
    return {
        name: (
            db.execute(f"show create table {schema}.{name}")[0][1],
            sorted(db.execute(f"select * from {schema}.{name}")),
        )
        for name in names
    }


@pytest.fixture
def pair(
    request: pytest.FixtureRequest, database: Any, fresh_name: str
) -> Iterator[tuple[Upstream, Any, str]]:
    """An upstream, a target of the same kind, both with the same tables and rows."""
    source, target = database(request.param), database(request.param, gtid=False)
    target.execute("drop database if exists tidegate")
    start = [f"create database {fresh_name} character set utf8mb4", *_TABLES, *_ROWS]
    for db in (source, target):
        db.execute(*(one.format(s=fresh_name) for one in start))
    upstream = Upstream(source)
    try:
        yield upstream, target, fresh_name
    finally:
        upstream.close()
        for db in (source, target):
            db.execute("set foreign_key_checks = 0", f"drop database {fresh_name}")
        target.execute("drop database if exists tidegate")


def _changes(upstream: Upstream, schema: str, statements: tuple[str, ...]) -> list[SchemaChange]:
    return upstream.run(*(one.format(s=schema) for one in statements))


@pytest.mark.parametrize("pair", _SERVERS, indirect=True)
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_step(pair: tuple[Upstream, Any, str], point: str) -> None:
    upstream, target, schema = pair
    # Before the record and behind the last one there is little to tell statements apart.
    statements = _STATEMENTS if point in ("recorded", "executed") else _STATEMENTS[:4]
    changes = _changes(upstream, schema, statements)
    assert len(changes) == len(statements)
    for i, change in enumerate(changes):
        child = Stopping(target.uri(), 2 * i + 1, change, point)
        assert child.reached() == "at", change.sql
        child.kill()
        made = changer(target.uri(), 2 * i + 2)
        states = {"unrecorded": None, "done": Recorded.DONE}
        expected = states.get(point, Recorded.EXECUTING)
        assert made.take_over().get(change.ts) is expected, change.sql
        made.execute(change)
        assert made.take_over()[change.ts] is Recorded.DONE
        # What has been done is not done again.
        made.execute(change)
        made.close()
    assert content(target, schema) == content(upstream.db, schema)
    assert list(target.execute("show tables from tidegate")) == [("ddl",)]


@pytest.mark.parametrize("pair", _SERVERS[:1], indirect=True)
def test_an_exchange_that_cannot_be_seen_is_asked_about(
    pair: tuple[Upstream, Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right PROCESS nothing shows whether partition and table were exchanged."""
    upstream, target, schema = pair
    monkeypatch.setattr(witness, "_ids", lambda *sides: {})
    (change,) = _changes(upstream, schema, (_STATEMENTS[3],))
    child = Stopping(target.uri(), 1, change, "executed")
    assert child.reached() == "at"
    child.kill()
    made = changer(target.uri(), 2)
    with pytest.raises(DDLOutcomeUnknown) as e:
        made.execute(change)
    assert "PROCESS" in e.value.hint
    made.skip(change)
    assert made.take_over() == {change.ts: Recorded.SKIPPED}
    made.execute(change)
    assert content(target, schema) == content(upstream.db, schema)


@pytest.mark.parametrize("pair", _SERVERS, indirect=True)
def test_without_looking_it_is_done_twice(
    pair: tuple[Upstream, Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: a swap without its marker happens again."""
    monkeypatch.setattr(carrying, "rest_of_renames", lambda *sides: Rest(0))
    upstream, target, schema = pair
    (change,) = _changes(upstream, schema, (_STATEMENTS[1],))
    child = Stopping(target.uri(), 1, change, "executed")
    assert child.reached() == "at"
    child.kill()
    assert content(target, schema) == content(upstream.db, schema)
    changer(target.uri(), 2).execute(change)
    assert content(target, schema) != content(upstream.db, schema)


@pytest.mark.parametrize("pair", _SERVERS, indirect=True)
@pytest.mark.parametrize("point", POINTS[:3])
def test_a_stopped_owner_cannot_go_on(pair: tuple[Upstream, Any, str], point: str) -> None:
    """One that wakes up behind its successor can neither begin nor record anything."""
    upstream, target, schema = pair
    swap, add = _changes(upstream, schema, (_STATEMENTS[1], _STATEMENTS[0]))
    for i, change in enumerate((swap, add)):
        child = Stopping(target.uri(), 2 * i + 1, change, point)
        assert child.reached() == "at"
        made = changer(target.uri(), 2 * i + 2)
        made.execute(change)
        child.go_on()
        said = child.reached()
        expected = DDLInterrupted.code if point == "recorded" else FencedEpoch.code
        assert said == expected
        child.process.join(60)
        made.close()
    with pytest.raises(FencedEpoch):
        changer(target.uri(), 1)
    assert content(target, schema) == content(upstream.db, schema)


def _running(target: Any, ts: int) -> list[int]:
    found = target.execute(
        "select id from information_schema.processlist"
        f" where info like '/* tidegate {FEED} ts {ts} */%'"
    )
    return [row[0] for row in found]


def _until(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + 120 * PATIENCE
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def _in_thread(made: MysqlChanger, change: SchemaChange) -> tuple[threading.Thread, list[Any]]:
    said: list[Any] = []

    def run() -> None:
        try:
            made.execute(change)
            said.append("end")
        except Exception as error:
            said.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, said


def test_killed_between_two_statements_of_one_change(database: Any, fresh_name: str) -> None:
    """MariaDB's words mean another type to MySQL, or need two statements there."""
    source, target = database("mariadb-11.4"), database("mysql-8.0", gtid=False)
    target.execute("drop database if exists tidegate")
    for db in (source, target):
        db.execute(f"create database {fresh_name} character set utf8mb4")
    upstream = Upstream(source)
    made = changer(target.uri(), 1)
    first = f"create table {fresh_name}.t (a text character set latin1, b int)"
    for change in upstream.run(first):
        made.execute(change)
    statements = (
        "alter table {s}.t modify a text, add c text, convert to character set utf8mb4",
        "create or replace table {s}.t (d int primary key)",
    )
    for i, statement in enumerate(statements):
        (change,) = _changes(upstream, fresh_name, (statement,))
        child = Stopping(target.uri(), 2 * i + 2, change, "second")
        assert child.reached() == "at", change.sql
        child.kill()
        made = changer(target.uri(), 2 * i + 3)
        assert made.take_over()[change.ts] is Recorded.EXECUTING
        made.execute(change)
        facts = "select column_name, data_type from information_schema.columns where"
        columns = [
            sorted(db.execute(f"{facts} table_schema = '{fresh_name}'")) for db in (source, target)
        ]
        assert columns[0] == columns[1]
    upstream.close()
    for db in (source, target):
        db.execute(f"drop database {fresh_name}")
    target.execute("drop database tidegate")


@pytest.mark.parametrize("pair", _SERVERS, indirect=True)
def test_killed_while_the_target_runs_it(pair: tuple[Upstream, Any, str]) -> None:
    """The statement is left to the target; its successor waits for it, and looks."""
    upstream, target, schema = pair
    (change,) = _changes(upstream, schema, (_STATEMENTS[1],))
    with target.connect(autocommit=False) as blocker:
        blocker.cursor().execute(f"select * from {schema}.a")
        child = Stopping(target.uri(), 1, change, None)
        _until(lambda: _running(target, change.ts))
        child.kill()
        made = changer(target.uri(), 2)
        assert made.take_over() == {change.ts: Recorded.EXECUTING}
        thread, said = _in_thread(made, change)
        time.sleep(0.5)
        assert not said
        blocker.rollback()
        thread.join(120)
    assert said == ["end"]
    assert content(target, schema) == content(upstream.db, schema)


@pytest.mark.parametrize("pair", _SERVERS, indirect=True)
def test_the_connection_is_killed(pair: tuple[Upstream, Any, str]) -> None:
    upstream, target, schema = pair
    (change,) = _changes(upstream, schema, (_STATEMENTS[1],))
    made = changer(target.uri(), 1)
    with target.connect(autocommit=False) as blocker:
        blocker.cursor().execute(f"select * from {schema}.a")
        thread, said = _in_thread(made, change)
        (connection,) = _until(lambda: _running(target, change.ts))
        target.execute(f"kill {connection}")
        thread.join(120)
        blocker.rollback()
    assert isinstance(said[0], DDLInterrupted)
    made.execute(change)
    assert content(target, schema) == content(upstream.db, schema)


@pytest.mark.parametrize("pair", _SERVERS[:1], indirect=True)
def test_a_statement_outlives_idle_sessions(
    pair: tuple[Upstream, Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's session is ended by the target while the statement runs for hours."""
    upstream, target, schema = pair
    monkeypatch.setattr(connection, "_IDLE_S", 1)
    monkeypatch.setattr(fresh, "_ASK_AFTER_S", 0.5)
    (change,) = _changes(upstream, schema, ("alter table {s}.d force",))
    made = changer(target.uri(), 1)
    with target.connect(autocommit=False) as blocker:
        blocker.cursor().execute(f"select * from {schema}.d")
        thread, said = _in_thread(made, change)
        _until(partial(_running, target, change.ts))
        idle = "select count(*) from information_schema.processlist where command = 'Sleep'"
        _until(lambda: target.execute(f"{idle} and user = 'root' and db is null")[0][0] <= 1)
        blocker.rollback()
        thread.join(120)
    assert said == ["end"]


def test_a_silent_connection_is_given_up_when_the_target_has_ended_it(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "_ASK_S", 0.1)
    target = database("mariadb-11.4", gtid=False)
    with Proxy(target.port) as proxy:
        uri = f"mysql://root@127.0.0.1:{proxy.port}/"
        running = execution.Execution(MysqlSettings.parse(uri))
        proxy.hold_answers()
        asked: list[int] = []

        def alive(connection: int) -> bool:
            asked.append(connection)
            return len(asked) < 3

        with pytest.raises(pymysql.err.OperationalError):
            running.run("do 1", alive, lambda: False)
        assert asked == [running.id] * 3
        proxy.pass_answers()
    running.close()


@pytest.mark.parametrize("name", _SERVERS)
def test_the_target_is_killed(database: Any, fresh_name: str, name: str) -> None:
    source = database(name)
    start = [f"create database {fresh_name} character set utf8mb4", *_TABLES, *_ROWS]
    statements = [one.format(s=fresh_name) for one in start]
    source.execute(*statements)
    upstream = Upstream(source)
    with servers.database(name) as server:
        target: Any = server
        target.execute(*statements)
        for statement in (_STATEMENTS[1], _STATEMENTS[0], _STATEMENTS[3]):
            (change,) = _changes(upstream, fresh_name, (statement,))
            made = changer(target.uri(), change.ts)
            table = change.tables[0][1]
            with target.connect(autocommit=False) as blocker:
                blocker.cursor().execute(f"select * from {fresh_name}.{table}")
                thread, said = _in_thread(made, change)
                _until(partial(_running, target, change.ts))
                target.kill()
                thread.join(120)
                target.start()
            assert isinstance(said[0], DDLInterrupted)
            made.execute(change)
        assert content(target, fresh_name) == content(source, fresh_name)
    upstream.close()
    source.execute(f"drop database {fresh_name}")
