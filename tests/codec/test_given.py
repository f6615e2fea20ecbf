"""Messages with columns out of names: those without them, and the same more in each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sink.codec.canal.settings import CanalSettings
from sink.codec.debezium.settings import DebeziumSettings
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import RoutingFailed
from sink.open import open_sink
from tests.codec.binlog_rows import canal_file, keyed_messages_of, messages_of, table_of
from tests.codec.test_debezium import records_of

_SCHEMA = "codec_given"
_GIVEN = {"c_table": "1", 'a "b"': _SCHEMA}


def _rule(column: str = "c_table", **more: Any) -> DispatcherSettings:
    return DispatcherSettings.model_validate(
        {
            "matcher": ["*.t_*"],
            "target-table": "t",
            "extract-table": {"table-regexp": "t_(.*)", "target-column": column},
            "extract-schema": {"schema-regexp": "(.*)", "target-column": 'a "b"'},
            **more,
        }
    )


@pytest.fixture(scope="module")
def written(database: Any) -> Any:
    """Rows of a table with a key, and of one without."""
    server = database("mysql-8.0")
    server.execute(f"drop database if exists {_SCHEMA}", f"create database {_SCHEMA}")
    server.execute(
        "flush binary logs",
        "create table t_1 (id int primary key, u bigint unsigned, name varchar(20), note text)",
        "create table t_2 (x int, gone int as (1) virtual)",
        "insert into t_1 (id, u, name) values (1, 18446744073709551615, 'a'), (2, 1, null)",
        "update t_1 set name = 'b' where id = 1",
        "update t_1 set id = 9 where id = 2",
        "update t_1 set name = 'c' where id = 1",
        "delete from t_1 where id = 1",
        "insert into t_2 (x) values (1), (null)",
        database=_SCHEMA,
    )
    tables = {f"{_SCHEMA}.{name}": table_of(server, _SCHEMA, name) for name in ("t_1", "t_2")}
    return server.binlogs()[-1].read_bytes(), tables


@pytest.fixture(scope="module")
def keyed(written: Any) -> Any:
    return written[0], {name: t for name, t in written[1].items() if name.endswith("t_1")}


def _canal(written: Any, rule: dict[str, Any] | None = None, **how: Any) -> Any:
    rules = (_rule(**(rule or {})),) if rule is not None else ()
    settings = CanalSettings(
        dispatchers=rules or (DispatcherSettings(matcher=("*.t_*",), target_table="t"),), **how
    )
    return keyed_messages_of(canal_file(*written, settings))


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"only_output_updated_columns": True},
        {"content_compatible": True, "enable_tidb_extension": True},
        {"delete_only_output_handle_key_columns": True, "handle_key_as_record_key": True},
    ],
)
def test_canal_json_has_them_before_the_others(keyed: Any, how: dict[str, Any]) -> None:
    with_them, without = _canal(keyed, {}, **how), _canal(keyed, **how)
    full = how.get("content_compatible", False)
    olds = not (full or how.get("only_output_updated_columns", False))
    assert len(with_them) == len(without) == 6
    for (key, message), (bare_key, bare) in zip(with_them, without, strict=True):
        wanted = bare | {
            "pkNames": bare["pkNames"] and ["id", *_GIVEN],
            "sqlType": dict.fromkeys(_GIVEN, 12) | bare["sqlType"],
            "mysqlType": dict.fromkeys(_GIVEN, "varchar(64)" if full else "varchar")
            | bare["mysqlType"],
            "data": [_GIVEN | row for row in bare["data"]],
            "old": bare["old"] and [(_GIVEN if olds else {}) | row for row in bare["old"]],
        }
        assert json.dumps(message) == json.dumps(wanted)
        assert key == (bare_key and _GIVEN | bare_key)


def test_a_table_without_a_key_has_none_through_them(written: Any) -> None:
    rows = messages_of(canal_file(*written, CanalSettings(dispatchers=(_rule(),), merging=True)))
    assert [(m["pkNames"], m["data"]) for m in rows[-2:]] == [
        (None, [_GIVEN | {"c_table": "2", "x": "1"}]),
        (None, [_GIVEN | {"c_table": "2", "x": None}]),
    ]
    # Of a row that shows nothing else they are all.
    shown = ({"matcher": ["*.t_2"], "columns": ["gone"]},)
    settings = CanalSettings(dispatchers=(_rule(),), column_selectors=shown, merging=True)
    rows = messages_of(canal_file(*written, settings))
    assert [m["data"] for m in rows[-2:]] == [[_GIVEN | {"c_table": "2"}]] * 2


@pytest.mark.parametrize("old", [True, False])
def test_debezium_has_them_in_rows_keys_and_schemas(written: Any, old: bool) -> None:
    settings = DebeziumSettings(name="shop", debezium_output_old_value=old, merging=True)
    plain = DispatcherSettings(matcher=("*.t_*",), target_table="t")
    without = records_of(written, settings.model_copy(update={"dispatchers": (plain,)}))
    found = records_of(written, settings.model_copy(update={"dispatchers": (_rule(),)}))
    assert len(found) == len(without)
    fields = [{"type": "string", "optional": False, "field": name} for name in _GIVEN]
    for (key, value), (bare_key, bare) in zip(found, without, strict=True):
        if bare_key is not None:
            assert key["payload"] == _GIVEN | bare_key["payload"]
            assert key["schema"]["fields"] == [*fields, *bare_key["schema"]["fields"]]
        else:
            assert key is None
        if bare is None:
            assert value is None
            continue
        given = _GIVEN if bare_key is not None else _GIVEN | {"c_table": "2"}
        for image in ("before", "after"):
            row, bare_row = (one["payload"][image] for one in (value, bare))
            assert json.dumps(row) == json.dumps(bare_row and given | bare_row)
        for image in (0, 1):
            there, bare_fields = (one["schema"]["fields"][image]["fields"] for one in (value, bare))
            assert there == [*fields, *bare_fields]


def test_a_batch_with_them_has_room_for_them(keyed: Any) -> None:
    """Values at the limits of their bound: a kernel that counted too little would write beyond."""
    long = _rule(column="c" * 3000)
    file = canal_file(*keyed, CanalSettings(dispatchers=(long,), handle_key_as_record_key=True))
    assert all(m["data"][0]["c" * 3000] == "1" for m in messages_of(file, batch=1))
    settings = DebeziumSettings(name="shop", dispatchers=(long,))
    for _, value in records_of(keyed, settings, batch=1):
        if value is not None and value["payload"]["after"] is not None:
            assert value["payload"]["after"]["c" * 3000] == "1"


def test_a_column_that_the_table_has_is_refused(keyed: Any) -> None:
    taken = (_rule(column="Name"),)
    with pytest.raises(RoutingFailed, match=r"column Name, .* is upstream"):
        canal_file(*keyed, CanalSettings(dispatchers=taken))
    with pytest.raises(RoutingFailed, match=r"column Name, .* is upstream"):
        records_of(keyed, DebeziumSettings(name="x", dispatchers=taken))


@pytest.mark.parametrize("protocol", ["canal-json", "debezium"])
def test_kafka_takes_the_keys(protocol: str) -> None:
    rule = _rule().model_dump(by_alias=True, exclude_none=True)
    assert open_sink(f"kafka://h/t?protocol={protocol}", {"dispatchers": [rule]}, merging=True)
