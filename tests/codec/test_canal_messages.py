"""Kinds of change, options, dispatch and errors on a real server's events."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from cdc.base.vtso import VTso
from cdc.changelog.index import Runs
from cdc.changelog.vtso_marks import marks
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.route import Route, RouteMode
from cdc.rows.transactions import RunTransactions
from sink.codec.canal.settings import CanalSettings
from sink.dispatch.columns import ColumnSelectorFailed
from sink.errors import MessageTooLarge
from tests.codec.binlog_rows import TS, canal_file, keyed_messages_of, messages_of, table_of

_DDL = (
    "create table t (id int primary key, u bigint unsigned, name varchar(20), "
    "sum_ int as (id + 1) stored, gone int as (id + 2) virtual) character set utf8mb4"
)


@pytest.fixture(scope="module", params=["mariadb-11.4", "mysql-8.0"])
def changes(database: Any, request: Any) -> Any:
    server = database(request.param)
    schema = "codec_changes"
    server.execute(f"drop database if exists {schema}", f"create database {schema}")
    server.execute("flush binary logs", _DDL, database=schema)
    server.execute(
        "insert into t (id, u, name) values (1, 18446744073709551615, 'a'), (2, 1, null)",
        "update t set name = 'b' where id = 1",
        "update t set id = 9 where id = 2",
        "delete from t where id = 1",
        database=schema,
    )
    return server.binlogs()[-1].read_bytes(), {f"{schema}.t": table_of(server, schema, "t")}


def test_kinds_and_layout(changes: Any) -> None:
    rows = messages_of(canal_file(*changes, CanalSettings(enable_tidb_extension=True)))
    assert [r["type"] for r in rows] == ["INSERT", "INSERT", "UPDATE", "UPDATE", "DELETE"]
    assert list(rows[0]) == [
        "id", "database", "table", "pkNames", "isDdl", "type", "es", "ts", "sql",
        "sqlType", "mysqlType", "old", "data", "_tidb",
    ]  # fmt: skip
    assert rows[0]["_tidb"] == {"commitTs": TS}
    assert rows[0]["es"] == TS >> 18
    assert rows[0]["pkNames"] == ["id"]
    # An unsigned value beyond the signed range takes the next larger Java type.
    assert rows[0]["sqlType"] == {"id": 4, "u": 3, "name": 12, "sum_": 4}
    assert rows[1]["sqlType"] == {"id": 4, "u": -5, "name": 12, "sum_": 4}
    assert rows[1]["mysqlType"]["u"] == "bigint unsigned"
    first = {"id": "1", "u": "18446744073709551615", "name": "a", "sum_": "2"}
    assert rows[0]["data"] == [first]
    assert rows[2]["old"] == [first]
    assert rows[2]["data"] == [first | {"name": "b"}]
    assert rows[4]["old"] is None
    assert rows[4]["data"] == [first | {"name": "b"}]


def test_transactions_of_a_cluster_are_named(changes: Any) -> None:
    # The last rows are of the transaction at TS; others of the table are before it and behind it.
    names = [VTso((1 << 63) - 1 - n, 10**18 + n, n % 2, n % 2) for n in range(5)]
    ts = np.array([TS - 9, TS - 1, TS, TS + 1, TS + 2])
    columns = np.array(names).T
    found = marks(ts, *columns, np.array([1, 2, 16, 3, 2]))
    at = Runs.build(1, commit_ts=TS)
    for extension in (True, False):
        file = canal_file(*changes, CanalSettings(enable_tidb_extension=extension))
        file.rows.transactions = RunTransactions(at, {}, found)
        rows = messages_of(file)
        expected = {"vtso": str(names[2]), "branches": 16} if extension else None
        assert [r.get("_tidegate") for r in rows] == [expected] * 5
        assert [r.get("_tidb") for r in rows] == [{"commitTs": TS} if extension else None] * 5
        assert rows[0]["sqlType"]["u"] == 3, "mended in place"
        # None is for another transaction, or where there are no marks.
        without = found.take(found.commit_ts != TS)
        for marked in (without, Runs.empty(), None):
            file.rows.transactions = RunTransactions(at, {}, marked)
            assert all("_tidegate" not in r for r in messages_of(file))


def test_content_options(changes: Any) -> None:
    settings = CanalSettings(content_compatible=True, delete_only_output_handle_key_columns=True)
    rows = messages_of(canal_file(*changes, settings))
    assert rows[2]["old"] == [{"name": "a"}]
    assert rows[3]["old"] == [{"id": "2", "sum_": "3"}]
    assert rows[0]["mysqlType"]["name"] == "varchar(20)"
    assert rows[4]["data"] == [{"id": "1"}]
    assert rows[4]["sqlType"] == {"id": 4}


def test_the_handle_key_is_the_key_of_records_where_that_is_wanted(changes: Any) -> None:
    plain = keyed_messages_of(canal_file(*changes))
    assert {key for key, _ in plain} == {None}
    keyed = keyed_messages_of(canal_file(*changes, CanalSettings(handle_key_as_record_key=True)))
    assert [message for _, message in keyed] == [message for _, message in plain]
    assert [key for key, _ in keyed] == [{"id": m["data"][0]["id"]} for _, m in plain]
    # Of an UPDATE of the key it is the new one.
    assert any(m["old"] and m["old"][0]["id"] != key["id"] for key, m in keyed)


def test_a_key_counts_as_a_part_of_its_message(changes: Any) -> None:
    file = canal_file(*changes)
    size = max(len(json.dumps(m, ensure_ascii=False, separators=(",", ":")).encode())
               for m in messages_of(file))  # fmt: skip
    assert messages_of(file, message=size)
    with pytest.raises(MessageTooLarge):
        messages_of(
            canal_file(*changes, CanalSettings(handle_key_as_record_key=True)), message=size
        )


def test_keys_of_all_sizes_stand_before_their_messages(database: Any) -> None:
    # Where key and value lie is guessed from what lengths usually take.
    server, schema = database("mariadb-11.4"), "codec_keys"
    ddl = "create table t (n int, k varchar(700), v longtext, w int, primary key (k, n, w))"
    server.execute(f"drop database if exists {schema}", f"create database {schema}")
    server.execute("flush binary logs", f"{ddl} charset utf8mb4", database=schema)
    for size in (0, 1, 40, 63, 64, 700):
        for value in (1, 4090, 70_000):
            key = f"{size}, concat(repeat('k\"', {max(0, size - 1) // 2}), 'é')"
            row = f"{key}, repeat('v', {value}), {value}"
            server.execute(f"insert into t values ({row})", database=schema)
    server.execute("delete from t where n = 64", database=schema)
    data = server.binlogs()[-1].read_bytes()
    tables = {f"{schema}.t": table_of(server, schema, "t")}
    keyed = keyed_messages_of(
        canal_file(data, tables, CanalSettings(handle_key_as_record_key=True))
    )
    assert [m for _, m in keyed] == messages_of(canal_file(data, tables))
    assert [key for key, _ in keyed] == [
        {column: m["data"][0][column] for column in ("n", "k", "w")} for _, m in keyed
    ]


def test_selected_columns_only(changes: Any) -> None:
    selector = {"matcher": ["*.t"], "columns": ["*", "!u", "!su*"]}
    settings = CanalSettings.model_validate({"column-selectors": [selector]})
    rows = messages_of(canal_file(*changes, settings))
    assert [r["type"] for r in rows] == ["INSERT", "INSERT", "UPDATE", "UPDATE", "DELETE"]
    assert rows[0]["data"] == [{"id": "1", "name": "a"}]
    assert rows[2]["old"] == [{"id": "1", "name": "a"}]
    assert rows[0]["sqlType"] == {"id": 4, "name": 12}
    assert rows[0]["mysqlType"] == {"id": "int", "name": "varchar"}
    assert {str(r["pkNames"]) for r in rows} == {"['id']"}
    other = CanalSettings.model_validate(
        {"column-selectors": [selector], "only-output-updated-columns": True}
    )
    assert messages_of(canal_file(*changes, other))[3]["old"] == [{"id": "2"}]


def test_a_selector_that_takes_the_key_is_refused(changes: Any) -> None:
    selector = {"matcher": ["*.t"], "columns": ["name"]}
    with pytest.raises(ColumnSelectorFailed):
        canal_file(*changes, CanalSettings.model_validate({"column-selectors": [selector]}))


def test_rows_carry_the_names_of_the_target(changes: Any) -> None:
    data, tables = changes
    rule = {"matcher": ["codec_*.*"], "target-schema": "0000000000000", "target-table": "{table}_x"}
    settings = CanalSettings.model_validate({"dispatchers": [rule]})
    route = Route(mode=RouteMode.COLUMNS, partitions=7, base=20, columns=(0,))
    plain, named = (canal_file(data, tables, s, route) for s in (CanalSettings(), settings))
    expected = [r | {"database": "0000000000000", "table": "t_x"} for r in messages_of(plain)]
    assert messages_of(named) == expected
    # Which partition a row goes to is decided by the upstream's names.
    assert (named.rows.refs == plain.rows.refs).all()


def test_dispatch_by_key(changes: Any) -> None:
    data, tables = changes
    route = Route(mode=RouteMode.COLUMNS, partitions=7, base=20, columns=(0,))
    file = canal_file(data, tables, route=route)
    located, rows = file.rows, messages_of(file)
    # The UPDATE that changes the key is split, as its keys may lie in two partitions.
    kinds = ["INSERT", "INSERT", "UPDATE", "DELETE", "INSERT", "DELETE"]
    assert [r["type"] for r in rows] == kinds
    (table,) = tables.values()
    names = crc32(f"{table.schema}{table.name}".encode())
    expected = [20 + (names ^ crc32(f"id{r['data'][0]['id']}".encode())) % 7 for r in rows]
    assert located.refs[:, L.R_DESTINATION].tolist() == expected
    wanted = np.array(sorted(set(expected)), np.int64)
    for destination, order in zip(wanted, located.by_destination(wanted), strict=True):
        assert order.tolist() == [i for i, d in enumerate(expected) if d == destination]


@pytest.mark.parametrize("bits", [2, 40])
def test_dispatch_by_blocks_of_an_integer_key(changes: Any, bits: int) -> None:
    route = Route(RouteMode.COLUMNS, partitions=7, base=20, columns=(0,), block=bits)
    file = canal_file(*changes, route=route)
    keys = [int(r["data"][0]["id"]) % (1 << 64) for r in messages_of(file)]
    hashes = [((k >> bits) * 0x9E3779B97F4A7C15) % (1 << 64) >> 33 for k in keys]
    assert file.rows.refs[:, L.R_DESTINATION].tolist() == [20 + h % 7 for h in hashes]
    assert len(set(hashes)) < len(set(keys))


def test_message_too_large(changes: Any) -> None:
    located = canal_file(*changes)
    with pytest.raises(MessageTooLarge, match=r"codec_changes\.t, row id=1") as failure:
        messages_of(located, message=300)
    assert failure.value.code == "TG:ErrMessageTooLarge"


def test_small_batches_hold_the_same(changes: Any) -> None:
    located = canal_file(*changes)
    assert messages_of(located, batch=700) == messages_of(located)
