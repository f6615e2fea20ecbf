"""Typed columns against what the server selects through its own client protocol."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.arrow import BEFORE
from sink.codec.arrow import ValueNotInArrow, record_batch
from sink.codec.rows import Located
from tests.codec.binlog_rows import locate_file, table_of

_COLUMNS = (
    "id int unsigned primary key, t tinyint, tu tinyint unsigned, s smallint, m mediumint,"
    " mu mediumint unsigned, b bigint, bu bigint unsigned, d decimal(30,10), f float, r double,"
    " c char(9), v varchar(300), l varchar(50) character set latin1, w text character set utf16,"
    " x varbinary(20), p binary(4), y blob, da date, dt datetime(6), ts timestamp(3) null,"
    " ti time(2), ye year, bi bit(11), e enum('p','q'), st set('h','i','j')"
)
_ROWS = (
    "(4294967295, -128, 255, -32768, -8388608, 16777215, -9223372036854775808,"
    " 18446744073709551615, -12345678901234567890.0123456789, 0.1, -1.5e300,"
    " 'é', '\"\\\\\\n\\t\x01/é😀',"
    " 'ümlaut €', 'a😀', x'00ff225c', x'01', repeat(x'80', 70000), '1969-12-31',"
    " '9999-12-31 23:59:59.999999', '2026-06-07 08:09:10.123', '-838:59:58.25', 2155, 1437,"
    " 'q', 'h,j')",
    "(1, 127, 0, 32767, 8388607, 0, 9223372036854775807, 0, 0, -3.4028235e38, 5e-324, '',"
    " repeat('é', 300), '', '', x'', x'00', '', '1000-02-28', '1000-01-01 00:00:00', null,"
    " '00:00:00.5', 0, 0, 'p', '')",
)


def _select() -> str:
    plain = "id t tu s m mu b bu d r c v l w x p y da dt ts ti ye".split()
    return ", ".join([*plain, "f + 0e0 as f", "bi + 0 as bi", "e + 0 as e", "st + 0 as st"])


def _expected(row: dict[str, Any]) -> dict[str, Any]:
    """What pyarrow shows for what pymysql decodes."""
    found = dict(row)
    for name in ("bi", "e", "st", "ye"):
        if row[name] is not None:
            found[name] = int(row[name])
    if row["d"] is not None:
        found["d"] = format(row["d"], "f")
        found["f"] = float(np.float32(row["f"]))
    if row["ts"] is not None:
        found["ts"] = row["ts"].replace(tzinfo=UTC)
    return found


@pytest.fixture(scope="module", params=["mariadb-11.4", "mysql-8.0"])
def tables(database: Any, request: Any) -> Any:
    server = database(request.param)
    schema = "codec_arrow"
    with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        for statement in (
            "set sql_mode='', time_zone='+00:00', names utf8mb4",
            f"create database {schema} character set utf8mb4", f"use {schema}",
            "flush binary logs", f"create table t ({_COLUMNS})",
            "create table other (id int primary key, z date)",
            f"insert into t values {_ROWS[0]}", "insert into other values (7, '2026-00-00')",
            f"insert into t values {_ROWS[1]}, ({', '.join(['2'] + ['null'] * 25)})",
        ):  # fmt: skip
            cursor.execute(statement)
        cursor.execute(f"select {_select()} from t order by field(id, 4294967295, 1, 2)")
        names = [d[0] for d in cursor.description]
        selected = [dict(zip(names, r, strict=True)) for r in cursor.fetchall()]
        cursor.execute("update t set v = 'new', t = null where id = 1")
        cursor.execute("delete from t where id = 2")
    known = {f"{schema}.{t}": table_of(server, schema, t) for t in ("t", "other")}
    return locate_file(server.binlogs()[-1], known), [_expected(r) for r in selected]


def _of(located: Located, plan: int) -> np.ndarray[Any, Any]:
    return np.flatnonzero(located.refs[:, L.R_PLAN] == plan).astype(np.int64)


def test_values_are_those_that_the_server_selects(tables: Any) -> None:
    located, expected = tables
    batch = record_batch(located, _of(located, 0)[:3])
    batch.validate(full=True)
    got = batch.to_pylist()
    assert [set(r) for r in got] == [set(r) for r in expected]
    for ours, theirs in zip(got, expected, strict=True):
        for name, value in theirs.items():
            assert ours[name] == value, name
    assert batch.schema.field("bu").type == pa.uint64()
    assert batch.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert isinstance(got[0]["ti"], timedelta)
    assert (got[1]["da"], got[0]["da"]) == (date(1000, 2, 28), date(1969, 12, 31))
    assert Decimal(got[0]["d"]) == Decimal("-12345678901234567890.0123456789")
    assert isinstance(got[0]["dt"], datetime)


def test_images_before_and_after(tables: Any) -> None:
    located, expected = tables
    order = _of(located, 0)
    before = record_batch(located, order, image=BEFORE).to_pylist()
    after = record_batch(located, order).to_pylist()
    assert all(v is None for row in before[:3] for v in row.values())
    assert before[3]["v"] == expected[1]["v"]
    assert (after[3]["v"], after[3]["t"], after[3]["b"]) == ("new", None, expected[1]["b"])
    assert before[4] == after[4]
    assert after[4]["id"] == 2


def test_dates_that_no_calendar_has(tables: Any) -> None:
    located, _ = tables
    order = _of(located, 1)
    with pytest.raises(ValueNotInArrow, match=r"codec_arrow\.other\.z: .*test\.binlog:\d+"):
        record_batch(located, order, 1)
    rows = record_batch(located, order, 1, no_day_as_null=True).to_pylist()
    assert json.dumps(rows) == '[{"id": 7, "z": null}]'
