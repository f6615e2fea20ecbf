"""Our maxwell messages against those of the real program (``maxwell_golden.json``)."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from kafka.record import MemoryRecords

from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.rows.storage import ColumnTypeNotSupported
from sink.codec.contract import EncodeLimits, Framing
from sink.codec.maxwell.codec import MaxwellCodec
from sink.codec.maxwell.plan import NO_TABLES, MaxwellPlan
from sink.codec.maxwell.settings import MaxwellSettings
from sink.errors import MessageTooLarge
from tests.codec import debezium_script as script
from tests.codec.binlog_rows import BUILD_MS, TS, record_batch, runs_of, table_of
from tests.codec.record_maxwell import COPIED, GOLDEN, loaded, plain
from tests.codec.test_debezium import written_on

Record = tuple[Any, Any]
Made = dict[str, list[Record]]
_KINDS = [kind for kind, _ in script.types()]
_SET = next(kind for kind in _KINDS if kind.startswith("set"))


@pytest.fixture(scope="module")
def golden() -> Made:
    """What the program has sent, but for the table that it has copied."""
    tables: Made = json.loads(GOLDEN.read_text())["tables"]
    return {
        name: [r for r in records if not r[1]["type"].startswith("bootstrap")]
        for name, records in tables.items()
    }


@pytest.fixture(scope="module")
def written(database: Any) -> Any:
    """The script's binlog on a MySQL 8.0, and its tables."""
    return written_on(database("mysql-8.0"))


def rows_of(
    written: Any, settings: MaxwellSettings, *, snapshot: bool = False
) -> tuple[RowBatch, MaxwellCodec, MaxwellPlan]:
    """Rows of the binlog and their plan, each table behind the others."""
    data, tables = written
    runs, entries = runs_of(data, tables)
    codec, plan = MaxwellCodec(settings), NO_TABLES
    for entry in entries:
        plan = codec.plan([entry], plan)
    matrix = np.array(runs, np.int64).reshape(-1, L.RUN_SIZE)
    buf = np.frombuffer(data, np.uint8)
    return RowBatch(buf, matrix, 10_000, plan.plans, "b", snapshot=snapshot), codec, plan


def records_of(written: Any, snapshot: bool = False, **limits: int) -> list[Record]:
    """All rows encoded as records, read back by kafka-python's decoder and json."""
    rows, codec, plan = rows_of(written, MaxwellSettings(), snapshot=snapshot)
    order, found = np.arange(len(rows.refs)), []
    for batch in codec.encode(rows, plan, order, BUILD_MS, limits=EncodeLimits(**limits)):
        decoded = MemoryRecords(record_batch(batch)).next_batch()
        assert decoded.validate_crc()
        there = list(decoded)
        assert [r.offset for r in there] == list(range(batch.records))
        assert {r.timestamp for r in there} == {TS >> 18}
        found += [(loaded(r.key), loaded(r.value)) for r in there]
    assert len(found) == len(order)
    return found


def by_table(found: list[Record]) -> Made:
    made: Made = {}
    for key, value in found:
        made.setdefault(value["table"], []).append((key, value))
    return made


@pytest.fixture(scope="module")
def made(written: Any) -> Made:
    return by_table(records_of(written))


def _same(kind: str, ours: Any, theirs: Any, *, maria: bool) -> bool:
    """Whether two values of a column mean the same, but for what is meant to differ."""
    if kind == "json" and maria:
        # There it is text.
        return ours is theirs is None or json.loads(ours, parse_float=str) == theirs
    if ours is None or theirs is None:
        # A value of an ENUM that was none is the empty text on the server.
        return ours is theirs or (kind.startswith("enum") and ours == "")
    if kind in ("float", "double") or kind.startswith(("float(", "double(")):
        # Java may print more digits than it takes to read the same float.
        as_float = np.float32 if kind.startswith("float") else np.float64
        return type(ours) is type(theirs) is str and as_float(ours) == as_float(theirs)
    if kind.startswith("decimal"):
        # Java writes 0E-30.
        return type(ours) is type(theirs) and Decimal(ours) == Decimal(theirs)
    if kind.startswith("time("):
        return ours == theirs or not _within_a_day(ours)
    if kind == "year":
        # 0000 is 1900 to it.
        return (ours, theirs) == (0, 1900) or (ours == theirs and ours != 1900)
    if kind.startswith("binary("):
        # It leaves out zeros at the end, which a copy of the table then has.
        return type(ours) is str and _bytes(ours).rstrip(b"\0") == _bytes(theirs)
    return type(ours) is type(theirs) and ours == theirs


def _within_a_day(text: str) -> bool:
    return not text.startswith("-") and int(text.split(":")[0]) < 24


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_TYPES = {
    "every": {"id": "int", **{f"c{i}": kind for i, kind in enumerate(_KINDS)}},
    "strict": {"e": "enum", "s": "timestamp"},
    "by_unique": {"u": "binary(4)"},
    "by_time": {"d": "decimal"},
}


def differences(golden: Made, made: Made, *, maria: bool = False) -> Iterator[str]:
    """Where our records are not the program's."""
    for table, theirs in golden.items():
        ours, types = made.get(table, []), _TYPES.get(table, {})
        if len(ours) != len(theirs):
            yield f"{table}: {len(ours)} records, not {len(theirs)}"
        for n, ((key, value), (key_, value_)) in enumerate(zip(ours, theirs, strict=False)):
            if table == COPIED:
                # It makes up a key for each message where there is no primary one.
                u = value["data"]["u"]
                key_ = {**key_, "pk.u": u}
            elif table == "keyless":
                key_ = None
            if key != key_ or (key and list(key) != list(key_)):
                yield f"{table} {n}: key {key} not {key_}"
            mine = plain(value)
            if list(mine) != list(value_) or mine["type"] != value_["type"]:
                yield f"{table} {n}: {list(mine)} {mine['type']}"
            if (mine["database"], mine["table"]) != (value_["database"], value_["table"]):
                yield f"{table} {n}: of {mine['database']}.{mine['table']}"
            for place in ("data", "old"):
                a, b = mine.get(place, {}), value_.get(place, {})
                if list(a) != list(b):
                    yield f"{table} {n}: columns {list(a)} not {list(b)}"
                yield from (
                    f"{table} {n} {place} {c}: {a[c]!r} not {b.get(c)!r}" for c in a
                    if not _same(types.get(c, ""), a[c], b.get(c), maria=maria)
                )  # fmt: skip


def test_records_are_those_of_the_program(golden: Made, made: Made) -> None:
    assert list(differences(golden, made)) == []
    assert sum(map(len, made.values())) > 30


@pytest.mark.parametrize("name", ["mysql-5.7", "mysql-9.7", "mariadb-10.4", "mariadb-11.4"])
def test_other_servers_have_the_same_records(golden: Made, database: Any, name: str) -> None:
    server = database(name)
    found = by_table(records_of(written_on(server)))
    assert list(differences(golden, found, maria=server.kind == "mariadb")) == []


def test_the_comparison_sees_what_is_wrong(golden: Made, made: Made) -> None:
    """Negative controls: a record left out, a wrong key, wrong values, a wrong ``old``."""

    def with_(table: str, change: Callable[[list[Record]], Any]) -> list[str]:
        other = copy.deepcopy(made)
        change(other[table])
        return list(differences(golden, other))

    assert with_("pair", lambda r: r.pop())
    assert with_("pair", lambda r: r[0][0].update({"pk.a": 2}))
    assert with_("every", lambda r: r[0][1]["data"].update(c0=1))
    assert with_("every", lambda r: r[0][1]["data"].update(c0="0"))
    assert with_("every", lambda r: r[1][1]["data"].update({f"c{_KINDS.index(_SET)}": "a,cé"}))
    assert with_("every", lambda r: r[8][1]["old"].update(c1=1))
    assert with_("strict", lambda r: r[0][1].update(type="update"))
    assert with_("by_unique", lambda r: r[0][1]["data"].update(u="AQ=A"[:3] + "="))


def test_values_are_those_of_the_server(database: Any, made: Made) -> None:
    """Where the program differs by a mistake of its own, ours are what SELECT shows."""
    server = database("mysql-8.0")
    server.execute(*script.SESSION, "CREATE TABLE shown LIKE every")
    chosen = [
        (n, kind) for n, kind in enumerate(_KINDS)
        if kind.startswith("time(") or kind in ("year", "enum('x','y','é','a,b')")
    ]  # fmt: skip
    inserts = [c for c in script.CHANGES if c.startswith("INSERT INTO every")]
    server.execute(*script.SESSION, *(c.replace("INTO every", "INTO shown", 1) for c in inserts))
    columns = ", ".join(f"CAST(c{n} AS CHAR)" for n, _ in chosen)
    shown = server.execute(f"SELECT id, {columns} FROM {script.SCHEMA}.shown")
    server.execute(f"DROP TABLE {script.SCHEMA}.shown")
    sent = {v["data"]["id"]: v["data"] for _, v in made["every"] if v["type"] == "insert"}
    for number, *values in shown:
        for (n, kind), value in zip(chosen, values, strict=True):
            ours = sent[number][f"c{n}"]
            # CAST shows the year 0 with four digits.
            same = int(value or 0) == (ours or 0) if kind == "year" else value == ours
            assert same, f"{kind} of row {number}: {ours!r} not {value!r}"


def test_a_message_says_when_and_in_which_transaction(made: Made) -> None:
    first = made["pair"][0][1]
    assert list(first) == ["database", "table", "type", "ts", "xid", "data"]
    assert first["ts"] == (TS >> 18) // 1000
    assert first["xid"] == TS


def test_rows_of_a_snapshot_are_a_bootstrap(written: Any) -> None:
    theirs = json.loads(GOLDEN.read_text())["tables"][COPIED]
    (copied,) = [v for _, v in theirs if v["type"] == "bootstrap-insert"]
    found = by_table(records_of(written, snapshot=True))[COPIED]
    key, value = found[0]
    assert list(plain(value)) == list(copied)
    assert value["type"] == copied["type"]
    assert list(value["data"]) == list(copied["data"])
    assert len(_bytes(value["data"]["u"])) == len(_bytes(copied["data"]["u"]))
    assert "xid" not in value
    assert key["pk.u"] == value["data"]["u"]


def test_names_and_columns_are_those_of_the_target(written: Any) -> None:
    settings = MaxwellSettings.model_validate(
        {
            "dispatchers": [{"matcher": ["*.pair"], "target-schema": "s", "target-table": "x_y"}],
            "column_selectors": [{"matcher": ["*.pair"], "columns": ["*", "!note"]}],
        }
    )
    rows, codec, plan = rows_of(written, settings)
    lines = [
        json.loads(line)
        for batch in codec.encode(
            rows, plan, np.arange(len(rows.refs)), BUILD_MS, framing=Framing.LINES
        )
        for line in bytes(batch.data).splitlines()
    ]
    first = next(line for line in lines if line["table"] == "x_y")
    assert first["database"] == "s"
    assert first["data"] == {"b": "b", "a": 1}


def test_small_batches_hold_the_same(written: Any, made: Made) -> None:
    assert by_table(records_of(written, batch=900)) == made


def test_message_too_large(written: Any) -> None:
    with pytest.raises(MessageTooLarge, match=r"codec_debezium\.every, row id=0"):
        records_of(written, message=1000)


@pytest.mark.parametrize("kind", ["geometry", "point"])
def test_a_type_without_a_form_is_refused_by_name(database: Any, kind: str) -> None:
    one, schema = database("mysql-8.0"), "codec_maxwell_not"
    one.execute(
        f"DROP DATABASE IF EXISTS {schema}",
        f"CREATE DATABASE {schema}",
        "FLUSH BINARY LOGS",
        f"CREATE TABLE {schema}.t (id int PRIMARY KEY, v {kind})",
        f"INSERT INTO {schema}.t (id) VALUES (1)",
    )
    tables = {f"{schema}.t": table_of(one, schema, "t")}
    with pytest.raises(ColumnTypeNotSupported) as failure:
        records_of((one.binlogs()[-1].read_bytes(), tables))
    assert failure.value.object == f"{schema}.t.v"
    assert "column-selectors" in failure.value.hint
