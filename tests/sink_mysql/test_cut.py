"""The cutting kernel, read back by plain Python: whole events, right sums, every image once."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from cdc.binlog.events import EventType
from cdc.binlog.table_map import TableMap
from cdc.binlog.writer import BinlogWriter
from cdc.kernels import apply as kernels
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.schema.parse import parse_create_table
from sink.mysql.events import ApplyPlan, apply_plan
from tests.codec.binlog_rows import runs_of

_TABLES = {
    "s.a": parse_create_table("create table a (id int not null, v varchar(20))", schema="s"),
    "s.b": parse_create_table("create table b (x tinyint)", schema="s"),
    "s.wide": parse_create_table(
        "create table wide (" + ", ".join(f"c{i} tinyint" for i in range(300)) + ")", schema="s"
    ),
}
_TYPES = {
    "s.a": (bytes((3, 15)), (0, 80)),
    "s.b": (b"\1", (0,)),
    "s.wide": (b"\1" * 300, (0,) * 300),
}


def _image(name: str, random: np.random.Generator) -> bytes:
    if name == "s.a":
        text = bytes(random.integers(97, 123, random.integers(0, 20), np.uint8))
        if random.random() < 0.2:
            return b"\2" + random.bytes(4)
        return b"\0" + random.bytes(4) + bytes((len(text),)) + text
    count = len(_TYPES[name][0])
    return bytes((count + 7) // 8) + random.bytes(count)


def _log(random: np.random.Generator, v1: bool) -> tuple[bytes, list[tuple[str, int, bytes, int]]]:
    """A binlog of mixed statements, and its rows: table, kind, images, flags of their event."""
    file, rows = io.BytesIO(), []
    writer = BinlogWriter(file, "11.4.5-MariaDB" if v1 else "8.0.33")
    for i, (name, (types, meta)) in enumerate(_TYPES.items()):
        schema, _, table = name.partition(".")
        writer.table_map(TableMap(i + 7, 0, schema, table, types, meta, (True,) * len(types)))
    codes = (23, 24, 25) if v1 else (30, 31, 32)
    for _ in range(60):
        i = int(random.integers(0, 3))
        name, kind = list(_TYPES)[i], int(random.integers(0, 3))
        flags = int(random.choice([1, 1, 1, 3, 5]))
        images = [
            b"".join(_image(name, random) for _ in range(2 if kind == 1 else 1))
            for _ in range(int(random.integers(1, 5)))
        ]
        columns = len(_TYPES[name][0])
        full = ((1 << columns) - 1).to_bytes((columns + 7) // 8, "little")
        packed = bytes((columns,)) if columns < 251 else b"\xfc" + struct.pack("<H", columns)
        # Extra data of a partitioned table, which a copy has no use for.
        extra = b"" if v1 else b"\2\0" if random.random() < 0.5 else b"\5\0\1\2\3"
        head = (
            struct.pack("<IHH", i + 7, 0, flags) + extra + packed + full * (2 if kind == 1 else 1)
        )
        writer.event(codes[kind], head + b"".join(images))
        rows += [(name, kind, image, flags & 6) for image in images]
    return file.getvalue(), rows


def _parsed(payload: bytes) -> list[tuple[int, bytes]]:
    events, at = [], 0
    while at < len(payload):
        code, length = payload[at + 4], struct.unpack_from("<I", payload, at + 9)[0]
        event = payload[at : at + length]
        assert len(event) == length
        assert zlib.crc32(event[:-4]) == struct.unpack("<I", event[-4:])[0]
        events.append((code, event[19:-4]))
        at += length
    return events


def _located(data: bytes) -> tuple[ApplyPlan, RowBatch, Any]:
    runs, entries = runs_of(data, _TABLES)
    named = [(t, m, r, ("to", f"{t.name}_x")) for t, m, r in entries]
    plan = apply_plan(named[1:], 5, apply_plan(named[:1], 5))
    matrix = np.array(runs, np.int64)
    return plan, RowBatch(np.frombuffer(data, np.uint8), matrix, 10_000, plan.plans, "f"), matrix


@pytest.mark.parametrize("v1", [True, False])
@pytest.mark.parametrize("limit", [1300, 2500, 4000, 1 << 20])
def test_payloads_hold_every_row_once(v1: bool, limit: int) -> None:
    random = np.random.default_rng(limit + v1)
    data, rows = _log(random, v1)
    plan, located, runs = _located(data)
    flags = np.empty(len(located.refs), np.int64)
    assert kernels.row_flags(located.buf, runs, located.refs, flags)[0] == L.OK
    assert [f & 6 for f in flags.tolist()] == [f for *_, f in rows]
    order = np.sort(random.choice(len(rows), len(rows) * 3 // 4, replace=False)).astype(np.int64)
    seen, out = np.full(len(plan.maps), -1, np.int64), np.empty(limit, np.uint8)
    got, i, turn = [], 0, 0
    while i < len(order):
        turn += 2
        after, size, _, error, _ = kernels.cut(
            located.buf, located.refs, order, i, len(order), flags, plan.maps, plan.constants,
            seen, turn, 5, 300, limit, out,
        )  # fmt: skip
        assert error == L.OK
        assert after > i
        assert size <= limit
        events = _parsed(out[:size].tobytes())
        codes = [code for code, _ in events]
        maps = {}
        for code, body in events[: codes.index(next(c for c in codes if c != 19))]:
            assert code == EventType.TABLE_MAP
            found = TableMap.parse(body)
            maps[found.table_id] = f"s.{found.name.removesuffix('_x')}"
            assert found.schema == "to"
        assert 19 not in codes[len(maps) :]
        for n, (code, body) in enumerate(events[len(maps) :], len(maps) + 1):
            table, _, flag, extra = struct.unpack_from("<IHHH", body)
            assert extra == 2
            assert flag & 1 == (n == len(events))
            name, kind = maps[table], code - 30
            columns = len(_TYPES[name][0])
            size_of = (columns + 7) // 8
            head = 10 + (1 if columns < 251 else 3) + size_of * (2 if kind == 1 else 1)
            got.append((name, kind, body[head:], flag & 6))
        i = after
    expected = [rows[k] for k in order.tolist()]
    at = 0
    for name, kind, body, flag in got:
        rest = body
        while rest:
            assert (name, kind, flag) == (expected[at][0], expected[at][1], expected[at][3])
            assert rest.startswith(expected[at][2])
            rest = rest[len(expected[at][2]) :]
            at += 1
    assert at == len(order)


def test_limits() -> None:
    data, _ = _log(np.random.default_rng(1), v1=False)
    plan, located, _ = _located(data)
    n = len(located.refs)
    flags = np.zeros(n, np.int64)
    order, seen = np.arange(n, dtype=np.int64), np.full(len(plan.maps), -1, np.int64)

    def cut(limit: int, room: int) -> tuple[int, int, int, int, int]:
        found: tuple[int, int, int, int, int] = kernels.cut(
            located.buf, located.refs, order, 0, n, flags, plan.maps, plan.constants, seen,
            int(seen.max()) + 2, 5, 300, limit, np.empty(room, np.uint8),
        )  # fmt: skip
        return found

    after, _, needed, error, _ = cut(10, 4096)
    assert (after, error) == (0, L.ERR_TOO_LARGE)
    assert cut(needed - 1, 4096)[3] == L.ERR_TOO_LARGE
    assert cut(needed, 4096)[:2] == (1, needed)
    after, _, room, error, _ = cut(1 << 20, 100)
    assert (after, error) == (0, L.ERR_ROOM)
    assert cut(1 << 20, room)[:2] == (n, room)


def test_hostile_references_are_refused() -> None:
    """Whatever the integers are: an error or bytes that lie in the arrays, never a crash."""
    random = np.random.default_rng(7)
    data, _ = _log(random, v1=False)
    plan, located, runs = _located(data)
    n = len(located.refs)
    for _ in range(3000):
        refs, flags = located.refs.copy(), random.integers(0, 256, n, np.int64)
        order = np.arange(n, dtype=np.int64)
        for _ in range(int(random.integers(1, 4))):
            value = int(random.choice([-1, 0, len(data), len(data) - 3, 1 << 40, -(1 << 60), 3]))
            refs[random.integers(0, 5), random.integers(0, L.R_SIZE)] = value
        if random.random() < 0.3:
            order[random.integers(0, 5)] = random.choice([-1, n, 1 << 40])
        out = np.empty(int(random.integers(0, 3000)), np.uint8)
        after, size, _, error, _ = kernels.cut(
            located.buf, refs, order, 0, n, flags, plan.maps, plan.constants,
            np.full(len(plan.maps), -1, np.int64), 2, 5, 300, int(random.integers(0, 3000)), out,
        )  # fmt: skip
        assert 0 <= size <= out.size
        assert (error == L.OK) == (after > 0)
        changed = runs.copy()
        changed[random.integers(0, 3), random.integers(0, 2)] = random.choice([-1, 1 << 40, 5])
        kernels.row_flags(located.buf, changed, refs, np.empty(n, np.int64))
