"""The kernels of SQL text without a server: literals, and integers that are not sound."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import sql_layout as S  # noqa: N812
from cdc.kernels.sql_json import STACK
from cdc.kernels.sql_number import put_double, widened
from cdc.kernels.sql_statement import write
from cdc.kernels.sql_text import put_hex, put_quoted
from cdc.rows.batch import RowBatch
from sink.mysql.connection import Target
from sink.mysql.sql_plan import SqlEntry, SqlPlan, sql_plan
from sink.mysql.target import TargetTable
from tests.codec.binlog_rows import runs_of
from tests.sink_mysql.test_cut import _TABLES, _log

_TARGET = Target("8.0.33", 1, 1 << 24, mariadb=False)


def _read(literal: bytes, backslash_escapes: bool) -> bytes:
    """What a server reads, by its manual."""
    if literal.startswith(b"x'"):
        return bytes.fromhex(literal[2:-1].decode())
    assert literal[:1] == literal[-1:] == b"'"
    found, inside, i = bytearray(), literal[1:-1], 0
    while i < len(inside):
        if inside[i] == 39:
            assert inside[i + 1] == 39
            i += 1
        elif inside[i] == 92 and backslash_escapes:
            i += 1
        found.append(inside[i])
        i += 1
    return bytes(found)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_byte_string_reads_back(ascii_only: bool) -> None:
    random = np.random.default_rng(3)
    quoted = 0
    for _ in range(4000):
        n = int(random.integers(0, 40))
        letters = random.choice([39, 92, 0, 65, 0xE9, 0x27, 10], 7)
        data = random.choice(letters, n).astype(np.uint8) if n % 2 else random.bytes(n)
        buf = np.frombuffer(b"'" + bytes(data) + b"\\'", np.uint8)
        out = np.full(2 * n + 200, 7, np.uint8)
        end = put_quoted(buf, 1, n, ascii_only, out, 3)
        value = buf[1 : 1 + n].tobytes()
        special = b"\\" in value or (ascii_only and max(value, default=0) > 127)
        assert (end < 0) == special
        if end < 0:
            end = put_hex(buf, 1, n, 0, out, 3)
        else:
            quoted += 1
        literal = out[3:end].tobytes()
        assert _read(literal, True) == _read(literal, False) == value
        assert (out[2 * n + 3 + 80 :] == 7).all()
    assert quoted > 500


def test_floats_read_back() -> None:
    random = np.random.default_rng(9)
    out = np.empty(100, np.uint8)
    words = [0, 1, 1 << 31, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, *random.integers(0, 1 << 32, 3000)]
    for word in map(int, words):
        exact = struct.unpack("<f", struct.pack("<I", word))[0]
        bits = int(widened(np.int64(word)))
        end, error = put_double(np.uint64(bits), 0, out, 0)
        if not np.isfinite(exact):
            assert error != 0
            continue
        text = out[:end].tobytes()
        assert b"e" in text
        assert struct.pack("<d", float(text)) == struct.pack("<d", exact)


def _planned(data: bytes) -> tuple[SqlPlan, RowBatch, np.ndarray]:
    runs, entries = runs_of(data, _TABLES)
    plan = sql_plan(
        [SqlEntry(t, m, TargetTable(t, "innodb", True), route=r) for t, m, r in entries], _TARGET
    )
    matrix = np.array(runs, np.int64)
    return plan, RowBatch(np.frombuffer(data, np.uint8), matrix, 10_000, plan.plans, "f"), matrix


def test_hostile_references_are_refused() -> None:
    """Whatever the integers are: an error or bytes that lie in the arrays, never a crash."""
    random = np.random.default_rng(7)
    data, _ = _log(random, v1=False)
    plan, located, _ = _planned(data)
    n = len(located.refs)
    plans = plan.plans
    spans = np.empty(4 * int(plans.tables[:, L.T_COLUMNS].max()) + STACK, np.int64)
    errors = 0
    for _ in range(3000):
        refs, flags = located.refs.copy(), random.integers(0, 256, n, np.int64)
        order = np.arange(n, dtype=np.int64)
        for _ in range(int(random.integers(1, 4))):
            value = int(random.choice([-1, 0, len(data), len(data) - 3, 1 << 40, -(1 << 60), 3]))
            refs[random.integers(0, 5), random.integers(0, L.R_SIZE)] = value
        if random.random() < 0.3:
            order[random.integers(0, 5)] = random.choice([-1, n, 1 << 40])
        out = np.empty(int(random.integers(100, 9000)), np.uint8)
        limit = int(random.integers(1, 9000))
        after, half, size, rows, form, _, error, _, _ = write(
            located.buf, refs, order, 0, n, bool(random.random() < 0.1), flags, plans.tables,
            plans.columns, plan.forms, plan.items, plan.constants, plan.numbers,
            plans.zone_starts, plans.zone_offsets, plans.texts, limit, limit + 100, spans,
            np.empty(int(random.integers(0, 300)), np.uint8), out,
        )  # fmt: skip
        assert 0 <= size <= out.size
        assert (error == L.OK) == (after > 0 or half > 0)
        assert (error == L.OK) == (rows > 0)
        assert -1 <= form < len(plan.forms)
        errors += error != L.OK
    assert 0 < errors < 3000


def test_a_table_without_statements_is_refused() -> None:
    data, _ = _log(np.random.default_rng(1), v1=False)
    runs, entries = runs_of(data, _TABLES)
    plan = sql_plan([SqlEntry(t, m, None) for t, m, _ in entries], _TARGET)
    assert not plan.forms.any()
    assert plan.forms.shape == (len(entries) * S.S_COUNT, S.F_SIZE)
    assert len(runs) > 10
