"""Runs of a server's own binlog file, found by plain Python, and messages out of them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import crc32c
import numpy as np
from kafka.record import MemoryRecords

from cdc.binlog.table_map import TableMap
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.rows.route import Route
from cdc.schema.parse import parse_create_table
from cdc.schema.table import Table
from cdc.schema.tokens import Session
from sink.codec.canal.codec import CanalCodec
from sink.codec.canal.plan import NO_TABLES, CanalPlan
from sink.codec.canal.settings import CanalSettings
from sink.codec.contract import EncodedMessages, EncodeLimits

TS = (1_790_000_000_000 << 18) + 7
BUILD_MS = 1_790_000_000_123
_ROWS = frozenset((23, 24, 25, 30, 31, 32))


def table_of(server: Any, schema: str, name: str) -> Table:
    """The table as SHOW CREATE TABLE tells it."""
    sql = server.execute(f"show create table `{schema}`.`{name}`")[0][1]
    session = Session(mariadb=server.kind == "mariadb", version=(8, 0, 0))
    return parse_create_table(sql, session, schema=schema)


def events_of(data: bytes) -> list[tuple[int, int, int]]:
    """(offset, type, length) of each event."""
    at, found = 4, []
    while at + 19 <= len(data):
        code, _, length = struct.unpack_from("<BII", data, at + 4)
        if length < 19:
            break
        found.append((at, code, length))
        at += length
    return found


def runs_of(
    data: bytes, tables: dict[str, Table], route: Route | None = None
) -> tuple[list[list[int]], list[tuple[Table, TableMap, Route]]]:
    """Every rows event of these tables (by ``schema.name``) as a run of its own."""
    maps: dict[int, TableMap] = {}
    plans: dict[str, int] = {}
    entries, runs = [], []
    for at, code, length in events_of(data):
        body = data[at + 19 : at + length - 4]
        if code == 19:
            found = TableMap.parse(body)
            maps[found.table_id] = found
        elif code in _ROWS:
            stored = maps[int.from_bytes(body[:6], "little")]
            if stored.full_name not in tables:
                continue
            if stored.full_name not in plans:
                plans[stored.full_name] = len(entries)
                entries.append((tables[stored.full_name], stored, route or Route()))
            plan = plans[stored.full_name]
            runs.append([at, length, plan, TS, 0, 0, 1 << 40])
    return runs, entries


class CanalRows(NamedTuple):
    """Rows of a binlog file, and what writes them as canal-json."""

    rows: RowBatch
    codec: CanalCodec
    plan: CanalPlan


def canal_file(
    path: Path | bytes,
    tables: dict[str, Table],
    settings: CanalSettings | None = None,
    route: Route | None = None,
) -> CanalRows:
    """Rows of a binlog file with their canal-json plan."""
    data = path if isinstance(path, bytes) else path.read_bytes()
    runs, entries = runs_of(data, tables, route)
    codec = CanalCodec(settings or CanalSettings())
    # Each table behind the others, as a worker meets them.
    plan = NO_TABLES
    for entry in entries:
        plan = codec.plan([entry], plan)
    matrix = np.array(runs, np.int64).reshape(-1, L.RUN_SIZE)
    rows = RowBatch(np.frombuffer(data, np.uint8), matrix, 100_000, plan.plans, "test.binlog")
    return CanalRows(rows, codec, plan)


def locate_file(
    path: Path | bytes, tables: dict[str, Table], route: Route | None = None
) -> RowBatch:
    """Rows of a binlog file."""
    return canal_file(path, tables, route=route).rows


def record_batch(batch: EncodedMessages) -> bytes:
    """A whole batch of format v2 around the records, without compression."""
    tail = struct.pack(
        ">hiqqqhii", 0, batch.records - 1, batch.base_ms, batch.max_ms, -1, -1, -1, batch.records
    ) + bytes(batch.data)
    head = struct.pack(">ibI", -1, 2, crc32c.crc32c(tail))
    return struct.pack(">qi", 0, len(head) + len(tail)) + head + tail


def messages_of(file: CanalRows, **limits: int) -> list[dict[str, Any]]:
    """All rows encoded as records, read back by kafka-python's decoder and json."""
    return [message for _, message in keyed_messages_of(file, **limits)]


def keyed_messages_of(file: CanalRows, **limits: int) -> list[tuple[Any, dict[str, Any]]]:
    """The same, each behind its record's key, which is None without one."""
    order = np.arange(len(file.rows.refs), dtype=np.int64)
    found = []
    batches = file.codec.encode(
        file.rows, file.plan, order, BUILD_MS, limits=EncodeLimits(**limits)
    )
    for batch in batches:
        records = MemoryRecords(record_batch(batch))
        decoded = records.next_batch()
        assert decoded.validate_crc()
        rows = list(decoded)
        assert [r.offset for r in rows] == list(range(batch.records))
        assert not records.has_next()
        for row in rows:
            assert row.timestamp == TS >> 18
            key = None if row.key is None else json.loads(row.key)
            found.append((key, json.loads(row.value)))
    assert len(found) == len(order)
    return found
