"""Tables whose rows would mean something else at the target are refused, with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.base.errors import ErrorKind
from cdc.base.ids import FeedId
from sink.mysql import recheck
from sink.mysql.deliverer import MysqlDeliverer
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import TargetChanged, TargetIncompatible, TargetTableMissing
from tests.codec.binlog_rows import table_of
from tests.sink_mysql.replay import FEED, Replay, content, recovered, same_schema, settings_of

OTHER = FeedId("tests", "other", 1)

# Columns upstream, columns at the target, what the reason says.
_REFUSED = [
    ("id int", "id int unsigned", "int(11) upstream, int(10) unsigned at the target"),
    ("id int", "id bigint", "bigint"),
    ("id int, v varchar(20)", "id int, v varchar(21)", "varchar(21) at the target"),
    ("id int, v varchar(9)", "id int, v varchar(9) charset latin1", "character set utf8mb4"),
    ("id int, v text charset latin1", "id int, v text charset cp1251", "cp1251 at the target"),
    ("id int, v enum('a','b')", "id int, v enum('b','a')", "enum('b','a') at the target"),
    ("id int, v set('a','b')", "id int, v set('a','c')", "set('a','c') at the target"),
    ("id int, v int", "id int, w int", "called w at the target"),
    ("id int, v int", "id int", "2 columns upstream, 1 at the target"),
    ("id int", "id int, v int", "1 columns upstream, 2 at the target"),
    ("id int, v int null", "id int, v int not null", "NULL is allowed upstream, NOT NULL"),
    ("id int, v datetime(3)", "id int, v datetime(6)", "datetime(6) at the target"),
    ("id int, v decimal(10,2)", "id int, v decimal(10,3)", "decimal(10,3) at the target"),
    ("id int, v int", "id int, v int as (id + 1) stored", "generated no upstream"),
    ("id int, v text", "id int, v mediumtext", "mediumtext at the target"),
    ("id int, v blob", "id int, v text", "text at the target"),
    ("id int, v bit(7)", "id int, v bit(8)", "bit(8) at the target"),
    ("id int, v binary(4)", "id int, v char(4) charset latin1", "char(4)"),
]  # fmt: skip


def test_differing_definitions(database: Any, fresh_name: str) -> None:
    source, target = database("mariadb-11.4"), database("mariadb-11.8")
    for server in (source, target):
        server.execute(f"create database {fresh_name} charset utf8mb4")
    for n, (ours, theirs, _) in enumerate(_REFUSED):
        source.execute(f"create table {fresh_name}.t{n} ({ours})")
        target.execute(f"create table {fresh_name}.t{n} ({theirs})")
    source.execute("flush binary logs")
    for n in range(len(_REFUSED)):
        source.execute(f"insert into {fresh_name}.t{n} (id) values (1)")
    recovered(target)
    deliverer = MysqlDeliverer(settings_of(target), FEED, 1)
    replay = Replay.of(source, fresh_name)
    entries = list(replay.entries)
    for n, (_, _, reason) in enumerate(_REFUSED):
        replay.entries = [e for e in entries if e[0].name == f"t{n}"]
        assert len(replay.entries) == 1
        with pytest.raises(TargetIncompatible) as e:
            replay.plan(deliverer)
        assert reason in e.value.message
        assert e.value.object == f"{fresh_name}.t{n}"
        assert e.value.kind is ErrorKind.DEFINITE
        with pytest.raises(TargetIncompatible, match=r"at the target|called"):
            MysqlDriver(settings_of(target, "?apply=rows")).verify(
                [replay.entries[0][0]], mariadb=True
            )
    deliverer.close()


def test_what_is_no_table_of_rows(database: Any, fresh_name: str) -> None:
    source, target = database("mariadb-11.4"), database("mariadb-11.8")
    for server in (source, target):
        server.execute(f"create database {fresh_name} charset utf8mb4")
    for name in ("missing", "view", "versioned", "plain"):
        source.execute(f"create table {fresh_name}.`{name}` (id int primary key)")
    run = target.execute
    run(f"create view {fresh_name}.`view` as select 1 as id")
    run(f"create table {fresh_name}.versioned (id int primary key) with system versioning")
    run(f"create table {fresh_name}.plain (id int primary key) engine=myisam")
    driver = MysqlDriver(settings_of(target))
    for name, error, text in (
        ("missing", TargetTableMissing, "no such table"),
        ("view", TargetIncompatible, "it is a view"),
        ("versioned", TargetIncompatible, "it is a system versioned"),
        ("plain", TargetIncompatible, "engine myisam has no transactions"),
    ):
        with pytest.raises(error, match=text):
            driver.verify([table_of(source, fresh_name, name)], mariadb=True)


@pytest.mark.parametrize(
    ("one", "other"), [("mysql-8.0", "mariadb-11.4"), ("mariadb-11.4", "mysql-8.0")]
)
def test_json_between_families(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    for server in (source, target):
        server.execute(
            f"create database {fresh_name} charset utf8mb4",
            f"create table {fresh_name}.t (id int primary key, v json)",
        )
    source.execute("flush binary logs", f"insert into {fresh_name}.t values (1, '{{}}')")
    with pytest.raises(TargetIncompatible, match="json"):
        Replay.of(source, fresh_name).deliver(target)
    assert content(target, fresh_name) == {"t": []}


def test_other_collations_and_widths_are_the_same_bytes(database: Any, fresh_name: str) -> None:
    source, target = database("mariadb-11.4"), database("mysql-8.0")
    columns = "id int(7) primary key, v varchar(20) collate utf8mb4_{}, y year, unique key (v)"
    for server, collation in ((source, "nopad_bin"), (target, "0900_ai_ci")):
        server.execute(
            f"create database {fresh_name} charset utf8mb4",
            f"create table {fresh_name}.t ({columns.format(collation)})",
        )
    source.execute(
        "flush binary logs",
        f"insert into {fresh_name}.t values (1, 'é😀', 2026), (2, 'Straße', null)",
        f"update {fresh_name}.t set v = concat(v, ' ') where id = 1",
    )
    Replay.of(source, fresh_name).deliver(target)
    assert content(target, fresh_name) == content(source, fresh_name)


@pytest.mark.parametrize("name", ["mariadb-11.8", "mysql-8.0"])
def test_a_table_that_changes_at_the_target(
    database: Any, fresh_name: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recheck, "RECHECK_S", 0.0)
    source, target = database("mariadb-11.4"), database(name)
    source.execute(
        f"create database {fresh_name} charset utf8mb4 collate utf8mb4_general_ci",
        f"create table {fresh_name}.t (id int primary key, v int)",
        "flush binary logs",
        f"insert into {fresh_name}.t values (1, -1)",
    )
    same_schema(source, target, fresh_name)
    target.execute(f"create table {fresh_name}.other (id int primary key)")
    recovered(target, OTHER)
    deliverer = MysqlDeliverer(settings_of(target), OTHER, 1)
    replay = Replay.of(source, fresh_name)
    replay.plan(deliverer)
    deliverer.begin()
    deliverer.commit({})
    # Another table is none of ours. A changed sign is what no server would notice.
    target.execute(f"drop table {fresh_name}.other")
    deliverer.begin()
    deliverer.commit({})
    target.execute(f"alter table {fresh_name}.t modify v int unsigned")
    with pytest.raises(TargetChanged) as e:
        deliverer.begin()
    assert e.value.object == f"{fresh_name}.t"
    assert e.value.kind is ErrorKind.TRANSIENT
    again = MysqlDeliverer(settings_of(target), OTHER, 1)
    with pytest.raises(TargetIncompatible):
        replay.plan(again)
    again.close()
