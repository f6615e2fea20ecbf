"""Our debezium messages against those of the real connector (``debezium_golden.json``)."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kafka.record import MemoryRecords

from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch, RowImageNotFull
from cdc.rows.route import Route
from cdc.rows.storage import ColumnTypeNotSupported
from cdc.schema.session import Session
from filter.expr import compile_filter, keep_rows
from sink.codec.contract import EncodeLimits, Framing
from sink.codec.debezium.codec import DebeziumCodec
from sink.codec.debezium.plan import NO_TABLES, DebeziumPlan
from sink.codec.debezium.settings import DebeziumSettings
from sink.errors import MessageTooLarge
from tests.codec import debezium_script as script
from tests.codec.binlog_rows import BUILD_MS, TS, record_batch, runs_of, table_of
from tests.codec.record_debezium import GOLDEN, prepare

Record = tuple[Any, Any]
Made = dict[str, list[Record]]
_SETTINGS = DebeziumSettings(name="shop")


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads(GOLDEN.read_text())["tables"]


@pytest.fixture(scope="module")
def written(database: Any) -> Any:
    """The script's binlog on a MySQL 8.0, and its tables."""
    return written_on(database("mysql-8.0"))


def written_on(server: Any) -> Any:
    """The script's binlog, and its tables."""
    prepare(server)
    server.execute("FLUSH BINARY LOGS")
    server.execute(*script.SESSION, *script.CHANGES)
    tables = {
        f"{script.SCHEMA}.{name}": table_of(server, script.SCHEMA, name)
        for name in script.DATA_TABLES
    }
    return server.binlogs()[-1].read_bytes(), tables


def rows_of(
    written: Any, settings: DebeziumSettings, route: Route | None = None
) -> tuple[RowBatch, DebeziumCodec, DebeziumPlan]:
    """Rows of the binlog and their plan, each table behind the others."""
    data, tables = written
    runs, entries = runs_of(data, tables, route)
    codec, plan = DebeziumCodec(settings), NO_TABLES
    for entry in entries:
        plan = codec.plan([entry], plan)
    matrix = np.array(runs, np.int64).reshape(-1, L.RUN_SIZE)
    return (
        RowBatch(np.frombuffer(data, np.uint8), matrix, 10_000, plan.plans, "b"),
        codec,
        plan,
    )


def records_of(written: Any, settings: DebeziumSettings = _SETTINGS, **limits: int) -> list[Record]:
    """All rows encoded as records, read back by kafka-python's decoder and json."""
    rows, codec, plan = rows_of(written, settings)
    order, found, count = np.arange(len(rows.refs)), [], 0
    for batch in codec.encode(rows, plan, order, BUILD_MS, limits=EncodeLimits(**limits)):
        decoded = MemoryRecords(record_batch(batch)).next_batch()
        assert decoded.validate_crc()
        there = list(decoded)
        assert [r.offset for r in there] == list(range(batch.records))
        assert {r.timestamp for r in there} == {TS >> 18}
        found += [(_loaded(r.key), _loaded(r.value)) for r in there]
        count += batch.rows
    assert count == len(order)
    return found


def _loaded(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


def by_table(found: list[Record]) -> Made:
    """Records by table; a tombstone follows the DELETE that it belongs to."""
    made: Made = {}
    table = ""
    for key, value in found:
        if value is not None:
            table = value["payload"]["source"]["table"]
        made.setdefault(table, []).append((key, value))
    return made


def plain(value: Any) -> Any:
    """A payload without what differs by intent: the source, times, spaces in JSON documents."""
    if value is None:
        return None
    kept = {k: v for k, v in value.items() if k not in ("source", "ts_ms", "ts_us", "ts_ns")}
    for image in (kept["before"], kept["after"]):
        if image is not None and image.get(_JSON) is not None:
            image[_JSON] = json.loads(image[_JSON])
        # Java may print more digits than it takes to read the same float.
        if image is not None and image.get(_FLOAT) is not None:
            image[_FLOAT] = float(np.float32(image[_FLOAT])), type(image[_FLOAT]) is float
    return kept


_KINDS = [kind for kind, _ in script.types()]
_JSON, _FLOAT = (f"c{_KINDS.index(kind)}" for kind in ("json", "float"))


def bare(schema: Any) -> Any:
    """A schema without defaults, which make Connect read a NULL as one, and without our field."""
    if isinstance(schema, list):
        return [bare(s) for s in schema if s != _COMMIT_TS]
    if isinstance(schema, dict):
        return {k: bare(v) for k, v in schema.items() if k != "default"}
    return schema


_COMMIT_TS = {"type": "int64", "optional": False, "field": "commit_ts"}


def differences(golden: Any, made: Made) -> Iterator[str]:
    """Where our records are not the connector's."""
    for table, theirs in golden.items():
        ours = made.get(table, [])
        yield from (f"{table}: key schema" for k, _ in ours if bare(k and k["schema"])
                    != bare(theirs["key_schema"]))  # fmt: skip
        yield from (f"{table}: value schema" for _, v in ours if v and bare(v["schema"])
                    != bare(theirs["value_schema"]))  # fmt: skip
        if len(ours) != len(theirs["records"]):
            yield f"{table}: {len(ours)} records, not {len(theirs['records'])}"
        for n, ((key, value), (key_, value_)) in enumerate(
            zip(ours, theirs["records"], strict=False)
        ):
            if (key and key["payload"]) != key_:
                yield f"{table} {n}: key {key} not {key_}"
            mine, other = plain(copy.deepcopy(value and value["payload"])), plain(value_)
            if mine is None or other is None:
                if mine is not other:
                    yield f"{table} {n}: {mine} not {other}"
                continue
            if list(mine) != list(other):
                yield f"{table} {n}: fields {list(mine)}"
            for place in ("before", "after"):
                a, b = mine[place] or {}, other[place] or {}
                if list(a) != list(b):
                    yield f"{table} {n}: columns {list(a)} not {list(b)}"
                yield from (
                    f"{table} {n} {place} {c}: {a[c]!r} not {b.get(c)!r}" for c in a
                    if a[c] != b.get(c) or type(a[c]) is not type(b.get(c))
                )  # fmt: skip
            if mine["op"] != other["op"]:
                yield f"{table} {n}: op {mine['op']}"


@pytest.fixture(scope="module")
def made(written: Any) -> Made:
    return by_table(records_of(written))


def test_records_are_those_of_the_connector(golden: Any, made: Made) -> None:
    assert list(differences(copy.deepcopy(golden), made)) == []
    assert sum(map(len, made.values())) > 40


@pytest.mark.parametrize("name", ["mysql-5.7", "mysql-9.7", "mariadb-10.4", "mariadb-11.4"])
def test_other_servers_have_the_same_records(golden: Any, database: Any, name: str) -> None:
    server, expected = database(name), copy.deepcopy(golden)
    if server.kind == "mariadb":
        # There it is text with another name.
        for place in expected["every"]["value_schema"]["fields"][:2]:
            json_field = next(f for f in place["fields"] if f["field"] == _JSON)
            del json_field["name"], json_field["version"]
    assert list(differences(expected, by_table(records_of(written_on(server))))) == []


def test_the_comparison_sees_what_is_wrong(golden: Any, made: Made) -> None:
    """Negative controls: a tombstone left out, a wrong key, a wrong value, an update of a key."""

    def with_(table: str, change: Any) -> list[str]:
        other = copy.deepcopy(made)
        change(other[table])
        return list(differences(copy.deepcopy(golden), other))

    tombstone = next(i for i, (_, v) in enumerate(made["pair"]) if v is None)
    assert with_("pair", lambda r: r.pop(tombstone))
    assert with_("pair", lambda r: r[0][0]["payload"].update(a=2))
    assert with_("every", lambda r: r[0][1]["payload"]["after"].update(c0=1))
    assert with_("every", lambda r: r[0][1]["payload"]["after"].update(c17=0))
    assert with_("strict", lambda r: r[0][1]["payload"].update(op="u"))
    assert with_("by_time", lambda r: r[0][0]["schema"]["fields"][0].update(type="string"))


def test_the_source_says_what_is_known(golden: Any, made: Made) -> None:
    first = made["pair"][0][1]["payload"]
    assert list(first) == [*list(golden["pair"]["records"][0][1])[:5], "ts_ms", "ts_us", "ts_ns"]
    source = first["source"]
    schema = next(f for f in made["pair"][0][1]["schema"]["fields"] if f["field"] == "source")
    assert list(source) == [f["field"] for f in schema["fields"]]
    assert source["connector"] == "tidegate"
    assert (source["name"], source["db"], source["table"]) == ("shop", script.SCHEMA, "pair")
    assert source["commit_ts"] == TS
    assert (source["ts_ms"], source["ts_us"], source["ts_ns"]) == (
        TS >> 18, (TS >> 18) * 1000, (TS >> 18) * 1_000_000
    )  # fmt: skip
    assert (first["ts_ms"], first["ts_us"], first["ts_ns"]) == (
        BUILD_MS, BUILD_MS * 1000, BUILD_MS * 1_000_000
    )  # fmt: skip
    assert [v["payload"]["source"]["row"] for _, v in made["pair"][:2]] == [0, 1]


def test_without_schemas_only_payloads_are_left(written: Any, made: Made) -> None:
    settings = DebeziumSettings(name="shop", debezium_disable_schema=True)
    whole = [record for records in made.values() for record in records]
    payloads = [(k and k["payload"], v and v["payload"]) for k, v in whole]
    found = records_of(written, settings)
    assert sorted(map(repr, found)) == sorted(map(repr, payloads))


def test_without_old_values_an_update_has_no_before(written: Any) -> None:
    settings = DebeziumSettings(
        name="shop", debezium_disable_schema=True, debezium_output_old_value=False
    )
    values = [v for _, v in records_of(written, settings) if v]
    assert {v["before"] is None for v in values if v["op"] == "u"} == {True}
    assert {v["before"] is None for v in values if v["op"] == "d"} == {False}


def test_names_and_columns_are_those_of_the_target(written: Any) -> None:
    settings = DebeziumSettings.model_validate(
        {
            "name": "n",
            "dispatchers": [{"matcher": ["*.pair"], "target-schema": "s", "target-table": "x_y"}],
            "column_selectors": [{"matcher": ["*.pair"], "columns": ["*", "!note"]}],
        }
    )
    found = by_table(records_of(written, settings))["x_y"]
    key, value = found[0]
    assert key["schema"]["name"] == "n.s.x_y.Key"
    assert value["schema"]["name"] == "n.s.x_y.Envelope"
    assert value["payload"]["after"] == {"b": "b", "a": 1}
    assert value["payload"]["source"]["db"] == "s"


def test_a_changed_key_is_one_update_to_filters(written: Any) -> None:
    rows, _, plan = rows_of(written, _SETTINGS)
    number = [e.table.name for e in plan.plans.entries].index("pair")
    table = plan.plans.entries[number].table
    judge = compile_filter(table, Session(mariadb=False, version=(8, 0, 0)), delete="a = 7")
    kinds = rows.refs[:, L.R_KIND] & L.KIND_MASK
    lost = np.flatnonzero(~keep_rows(rows, {number: judge}))
    # One of two DELETEs of a = 7: the other is half of an UPDATE of b.
    assert kinds[lost].tolist() == [L.KIND_DELETE]


@pytest.mark.parametrize("bare_payload", [False, True])
def test_small_batches_hold_the_same(written: Any, bare_payload: bool) -> None:
    settings = DebeziumSettings(name="shop", debezium_disable_schema=bare_payload)
    assert records_of(written, settings, batch=900) == records_of(written, settings)


def test_message_too_large(written: Any) -> None:
    with pytest.raises(MessageTooLarge, match=r"codec_debezium\.every, row id=0"):
        records_of(written, message=2000)


def test_lines_are_values_alone(written: Any, made: Made) -> None:
    rows, codec, plan = rows_of(written, _SETTINGS)
    order = np.arange(len(rows.refs))
    lines = [
        json.loads(line)
        for batch in codec.encode(rows, plan, order, BUILD_MS, framing=Framing.LINES)
        for line in bytes(batch.data).splitlines()
    ]
    values = [v for records in made.values() for _, v in records if v is not None]
    assert sorted(map(repr, lines)) == sorted(map(repr, values))


def test_images_that_are_not_full(database: Any) -> None:
    one, schema = database("mysql-8.0"), "codec_debezium_part"
    one.execute(
        f"DROP DATABASE IF EXISTS {schema}",
        f"CREATE DATABASE {schema}",
        "FLUSH BINARY LOGS",
        f"CREATE TABLE {schema}.t (b blob, v int, id int PRIMARY KEY)",
        "SET SESSION binlog_row_image = 'NOBLOB'",
        f"INSERT INTO {schema}.t VALUES ('b', NULL, 1)",
        f"UPDATE {schema}.t SET v = 2",
        f"UPDATE {schema}.t SET id = 3",
        f"DELETE FROM {schema}.t",
    )
    written = one.binlogs()[-1].read_bytes(), {f"{schema}.t": table_of(one, schema, "t")}
    with pytest.raises(RowImageNotFull):
        rows_of(written, _SETTINGS)
    kept = DebeziumSettings.model_validate(
        {
            "name": "n",
            "debezium_disable_schema": True,
            "column_selectors": [{"matcher": ["*.*"], "columns": ["*", "!b"]}],
        }
    )
    found = [(k["id"], v and (v["before"], v["after"])) for k, v in records_of(written, kept)]
    assert found == [
        (1, (None, {"v": None, "id": 1})),
        (1, ({"v": None, "id": 1}, {"v": 2, "id": 1})),
        (1, ({"v": 2, "id": 1}, None)),
        (1, None),
        (3, (None, {"v": 2, "id": 3})),
        (3, ({"v": 2, "id": 3}, None)),
        (3, None),
    ]


@pytest.mark.parametrize(
    ("server", "kind"),
    [("mysql-8.0", "geometry"), ("mysql-8.0", "point"), ("mysql-9.7", "vector(3)"),
     ("mariadb-11.4", "uuid"), ("mariadb-11.4", "inet6")],
)  # fmt: skip
def test_a_type_without_a_form_is_refused_by_name(database: Any, server: str, kind: str) -> None:
    one, schema = database(server), "codec_debezium_not"
    one.execute(
        f"DROP DATABASE IF EXISTS {schema}",
        f"CREATE DATABASE {schema}",
        "FLUSH BINARY LOGS",
        f"CREATE TABLE {schema}.t (id int PRIMARY KEY, v {kind})",
        f"INSERT INTO {schema}.t (id) VALUES (1)",
    )
    tables = {f"{schema}.t": table_of(one, schema, "t")}
    data = one.binlogs()[-1].read_bytes()
    with pytest.raises(ColumnTypeNotSupported) as failure:
        rows_of((data, tables), _SETTINGS)
    assert failure.value.object == f"{schema}.t.v"
    assert "column-selectors" in failure.value.hint
    kept = DebeziumSettings.model_validate(
        {"name": "n", "column_selectors": [{"matcher": ["*.*"], "columns": ["id"]}]}
    )
    (record,) = records_of((data, tables), kept)
    assert record[1]["payload"]["after"] == {"id": 1}
