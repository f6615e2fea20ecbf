"""Columns of the target that are extracted from the names of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdc.base.nodes import qualified
from cdc.base.position import Position
from cdc.rows.batch import RowBatch
from cdc.rows.route import Route
from sink.dispatch.rules import DispatcherInvalid
from sink.dispatch.target import RoutingFailed
from sink.errors import SinkOptionNotSupported
from sink.mysql.deliverer import TARGET
from sink.mysql.errors import TargetColumnMissing, TargetIncompatible
from sink.mysql.settings import MysqlSettings
from sink.mysql.worker import MysqlWorker
from sink.open import open_sink
from tests.codec.binlog_rows import TS
from tests.sink_mysql.replay import FEED, Replay, recovered


def _rule(**more: Any) -> dict[str, Any]:
    table = {"table-regexp": "_(.*)$", "target-column": "c_table"}
    return {"matcher": ["*.s_*"], "target-table": "t", "extract-table": table} | more


def _settings(server: Any, *rules: dict[str, Any], query: str = "") -> MysqlSettings:
    return MysqlSettings.parse(
        f"{server.uri()}/{query}", {"dispatchers": list(rules)}, merging=True
    )


def _deliver(replay: Replay, target: Any, settings: MysqlSettings) -> None:
    target.execute("drop database if exists tidegate")
    recovered(target)
    worker = MysqlWorker(settings, FEED, 1, 0)
    try:
        plans = worker.plan([(t, m, Route()) for t, m, _ in replay.entries], mariadb=True)
        located = RowBatch(replay.buf, replay.runs, 200_000, plans, "test.binlog")
        worker.begin([(TARGET, 0)])
        order = np.arange(len(located.refs), dtype=np.int64)
        worker.deliver(located, replay.runs, order, (TARGET, 0))
        worker.commit({(TARGET, 0): Position(TS)})
    finally:
        worker.abort()


_WRITES = (
    "insert into {} values (1, 'x', 1), (2, 'y', 2), (3, 'z', 3), (4, 'w', 4)",
    "update {} set v = v + 10 where id < 3",
    "update {} set id = 9 where id = 3",
    "delete from {} where id in (2, 4)",
    "insert into {} values (5, 'q', 5)",
)


@pytest.mark.real
@pytest.mark.parametrize("key", ["primary key (id)", "primary key (id, a)", "key (id)"])
@pytest.mark.parametrize("query", ["", "?safe-mode=true"])
def test_equal_keys_of_two_tables_are_two_rows(
    database: Any, fresh_name: str, key: str, query: str
) -> None:
    source, target = database("mariadb-11.4"), database("mysql-8.0")
    columns = f"id int not null, a varchar(9) character set binary not null, v int, {key}"
    source.execute(
        f"create database {fresh_name}", f"use {fresh_name}",
        *(f"create table {t} ({columns})" for t in ("s_one", "`s_it's`")),
        "flush binary logs",
        *(sql.format(t) for sql in _WRITES for t in ("s_one", "`s_it's`")),
        # What one table has alone is no other's.
        "delete from s_one where id = 9",
        "update `s_it's` set v = 77 where id = 1",
    )  # fmt: skip
    unique = key.replace(")", ", c_table)") if key.startswith("primary") else key
    target.execute(
        f"create database {fresh_name}", f"use {fresh_name}",
        "create table t (id int not null, c_table varchar(64) not null, a varbinary(9) not null,"
        f" c_db varchar(64), v int, {unique})",
    )  # fmt: skip
    schema = {"schema-regexp": f"^(.*){fresh_name[-3:]}$", "target-column": "c_db"}
    replay = Replay.of(source, fresh_name)
    settings = _settings(target, _rule(**{"extract-schema": schema}), query=query)
    _deliver(replay, target, settings)
    rows = sorted(target.execute(f"select c_table, id, v, c_db from {fresh_name}.t"))
    db = fresh_name[:-3]
    assert rows == [
        ("it's", 1, 77, db), ("it's", 5, 5, db), ("it's", 9, 3, db),
        ("one", 1, 11, db), ("one", 5, 5, db),
    ]  # fmt: skip


@pytest.mark.real
def test_what_the_target_or_the_upstream_has_not_or_has_too(database: Any, fresh_name: str) -> None:
    source, target = database("mariadb-11.4"), database("mysql-8.0")
    source.execute(
        f"create database {fresh_name}", f"use {fresh_name}",
        "create table s_1 (id int primary key, v int)", "flush binary logs",
        "insert into s_1 values (1, 1)",
    )  # fmt: skip
    target.execute(
        f"create database {fresh_name}", f"create table {fresh_name}.t (id int primary key, v int)"
    )
    replay = Replay.of(source, fresh_name)
    with pytest.raises(TargetColumnMissing, match="c_table"):
        _deliver(replay, target, _settings(target, _rule()))
    taken = {"table-regexp": "(.)", "target-column": "V"}
    with pytest.raises(TargetIncompatible, match="upstream too"):
        _deliver(replay, target, _settings(target, _rule(**{"extract-table": taken})))
    with pytest.raises(TargetIncompatible, match="extracted from names"):
        _deliver(replay, target, _settings(target, _rule(), query="?apply=rows"))


def test_values_come_from_table_schema_and_node() -> None:
    source = {"source_regexp": "n(.)", "target_column": "c_source"}
    rule = _rule(extract_source=source)
    settings = MysqlSettings.parse("mysql://u@h/", {"dispatchers": [rule]}, merging=True)
    assert settings.given(qualified("n7", "shop"), "s_12") == (("c_table", "12"), ("c_source", "7"))
    assert settings.given(qualified("m", "shop"), "s_") == (("c_table", ""), ("c_source", ""))
    assert settings.given("shop", "other") == ()
    with pytest.raises(RoutingFailed, match="extract-source"):
        settings.given("shop", "s_1")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"extract-table": {"table-regexp": "no group", "target-column": "c"}}, "one group"),
        ({"extract-table": {"table-regexp": "((", "target-column": "c"}}, "cannot be read"),
        ({"extract-schema": {"schema-regexp": "(.)", "target-column": "C_Table"}}, "two extract"),
        ({"target-table": ""}, "needs target-schema"),
        ({"extract-table": {"regexp": "(.)", "target-column": "c"}}, "table-regexp"),
    ],
)
def test_rules_that_extract_nothing_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(DispatcherInvalid) as refused:
        MysqlSettings.parse("mysql://u@h/", {"dispatchers": [_rule(**change)]})
    assert why in f"{refused.value.message} {refused.value.object}"


@pytest.mark.parametrize("uri", ["file:///tmp/x?protocol=canal-json", "blackhole://"])
def test_other_sinks_have_no_such_columns(uri: str) -> None:
    with pytest.raises(SinkOptionNotSupported, match="extracted from names"):
        open_sink(uri, {"dispatchers": [_rule()]})
