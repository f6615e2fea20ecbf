"""Kafka Connect's converter and Debezium's own transformation read our records."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kafka.record import MemoryRecords

from bench.debezium import fetch
from sink.codec.debezium.settings import DebeziumSettings
from tests.codec.binlog_rows import BUILD_MS, record_batch, table_of
from tests.codec.test_debezium import rows_of
from tests.servers import Unavailable

_READER = Path(__file__).with_name("ReadDebezium.java")
_DDL = (
    "CREATE TABLE read_by_connect (id int, part varchar(9), d decimal(20,3), n bigint, f double,"
    " b varbinary(9), day date, at datetime(3), e enum('x','y'), PRIMARY KEY (part, id))"
    " CHARACTER SET utf8mb4"
)
_CHANGES = (
    "INSERT INTO {t} VALUES (1, 'é', -1.005, -9, 0.5, x'00ff', '2026-02-03',"
    " '2026-02-03 04:05:06.007', 'y'), (2, 'b', 99999999999999999.999, 1, -1e300, '', '1969-12-31',"
    " '1969-12-31 23:59:59.999', 'x'), (3, 'c', NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
    " (4, 'gone', 0, 0, 0, '', NULL, NULL, NULL), (5, 'moves', 0.128, 0, 0, '', NULL, NULL, NULL)",
    "UPDATE {t} SET n = 5 WHERE id = 1",
    "UPDATE {t} SET part = 'moved' WHERE id = 5",
    "DELETE FROM {t} WHERE id = 4",
)
_SELECT = (
    "SELECT id, part, d, n, f, HEX(b), day, DATE_FORMAT(at, '%Y-%m-%dT%H:%i:%s.%f'), e FROM {t}"
    " ORDER BY id"
)


@pytest.fixture(scope="module")
def jars() -> str:
    """The class path of Debezium and Kafka Connect."""
    try:
        return f"{fetch()}/*"
    except Unavailable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


def test_a_sink_of_connect_folds_our_records_to_the_rows(
    database: Any, jars: str, schema_name: str, tmp_path: Path
) -> None:
    server, table = database("mysql-8.0"), f"{schema_name}.read_by_connect"
    server.execute(f"CREATE DATABASE {schema_name}", "FLUSH BINARY LOGS")
    server.execute("SET NAMES utf8mb4", _DDL, *(c.format(t=table) for c in _CHANGES),
                   database=schema_name)  # fmt: skip
    tables = {table: table_of(server, schema_name, "read_by_connect")}
    data = server.binlogs()[-1].read_bytes()
    rows, codec, plan = rows_of((data, tables), DebeziumSettings(name="shop"))
    lines = []
    for batch in codec.encode(rows, plan, np.arange(len(rows.refs)), BUILD_MS):
        decoded = MemoryRecords(record_batch(batch)).next_batch()
        lines += [f"{_coded(r.key)} {_coded(r.value)}\n" for r in decoded]
    done = _read(jars, "".join(lines), tmp_path)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    read = [
        dict(field.split("=", 1) for field in line.split("\t"))
        for line in done.stdout.decode().splitlines()
    ]
    found = sorted(read, key=lambda row: int(row["id"]))
    names = ("id", "part", "d", "n", "f", "b", "day", "at", "e")
    upstream = [
        dict(zip(names, row, strict=True)) for row in server.execute(_SELECT.format(t=table))
    ]
    assert [_plain(row) for row in found] == [_plain(_of_server(row)) for row in upstream]
    assert len(found) == 4


def _coded(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def _of_server(row: dict[str, Any]) -> dict[str, str]:
    at = row["at"]
    shown = {k: "NULL" if v is None else str(v) for k, v in row.items()}
    return shown | {"at": "NULL" if at is None else f"{at[:-3]}Z"}


def _plain(row: dict[str, str]) -> dict[str, object]:
    return {k: float(v) if k == "f" and v != "NULL" else v for k, v in row.items()}


def test_the_reader_refuses_what_is_wrong(jars: str, tmp_path: Path) -> None:
    """Negative control: a record whose payload does not fit its schema is not read."""
    schema = '{"type":"struct","optional":false,"fields":[{"type":"int32","field":"id"}]}'
    key = f'{{"schema":{schema},"payload":{{"id":null}}}}'
    done = _read(jars, f"{_coded(key.encode())} -\n", tmp_path)
    assert done.returncode != 0
    assert b"DataException" in done.stderr


def _read(jars: str, lines: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """The reader's run over these lines."""
    java = shutil.which("java")
    assert java is not None
    return subprocess.run(
        [java, "-Xmx256m", "-cp", jars, str(_READER)],
        input=lines.encode(),
        capture_output=True,
        timeout=120,
        cwd=folder,
    )
