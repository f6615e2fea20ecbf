"""Blocks of rows hold what another client reads, and the connection goes on behind them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from cdc.snapshot.errors import SnapshotReadBroken
from cdc.snapshot.rows_reader import RowBlock, read_rows
from tests import seeds

_SERVERS = ["mariadb-11.4", "mysql-8.0"]
_LARGEST = (1 << 24) - 1


def _fields(payload: bytes) -> Iterator[bytes | None]:
    at = 0
    while at < len(payload):
        first, at = payload[at], at + 1
        if first == 0xFB:
            yield None
            continue
        size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
        n = int.from_bytes(payload[at : at + size], "little") if size else first
        at += size
        yield payload[at : at + n]
        at += n


def _rows(block: RowBlock) -> Iterator[tuple[bytes | None, ...]]:
    data, at = block.data.tobytes(), 0
    while at < len(data):
        n = int.from_bytes(data[at : at + 4], "little")
        yield tuple(_fields(data[at + 4 : at + 4 + n]))
        at += 4 + n


def _read(connection: Any, sql: str, block_bytes: int) -> list[tuple[bytes | None, ...]]:
    found: list[tuple[bytes | None, ...]] = []
    for block in read_rows(connection, sql, block_bytes):
        rows = list(_rows(block))
        assert len(rows) == block.rows > 0
        found += rows
    return found


@pytest.fixture(params=_SERVERS)
def connection(database: Any, request: Any) -> Iterator[Any]:
    connection = database(request.param).connect()
    yield connection
    if connection.open:
        connection.close()


def test_rows_of_all_sizes_in_blocks_of_all_sizes(connection: Any, schema_name: str) -> None:
    rng = random.Random(seeds.seed())
    lengths = (0, 1, 250, 251, 252, 65535)
    rows = [
        (
            i,
            None
            if rng.random() < 0.1
            else rng.randbytes(rng.choice([*lengths, rng.randrange(70)])),
        )
        for i in range(400)
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"create database {schema_name}")
        cursor.execute(f"create table {schema_name}.t (id int primary key, v blob)")
        cursor.executemany(f"insert into {schema_name}.t values (%s, %s)", rows)
    expected = [(str(i).encode(), v) for i, v in rows]
    for block_bytes in (1, 5000, rng.randrange(4096, 1 << 17), 1 << 24):
        sql = f"select id, v from {schema_name}.t order by id"
        assert _read(connection, sql, block_bytes) == expected
    assert _read(connection, f"select v from {schema_name}.t where id < 0", 1 << 16) == []


def test_rows_of_several_packets(connection: Any) -> None:
    """Around 2**24 - 1 bytes a row goes on in a packet that may be empty."""
    sizes = [_LARGEST - 1, _LARGEST, _LARGEST + 1, 10, 2 * _LARGEST, 7]
    # Two lengths of four bytes stand before the two values of a long row.
    pairs = [
        ((size - 8) // 2, size - 8 - (size - 8) // 2) if size > 100 else (size, 1) for size in sizes
    ]
    parts = (f"select repeat('a', {a}), repeat('b', {b})" for a, b in pairs)
    found = _read(connection, " union all ".join(parts), 1 << 20)
    assert [(len(a or b""), len(b or b"")) for a, b in found] == pairs
    assert all((a or b"").strip(b"a") == (b or b"").strip(b"b") == b"" for a, b in found)
    assert _read(connection, "select 1", 1 << 20) == [(b"1",)]


@pytest.mark.parametrize("prepared", [False, True], ids=["text", "binary"])
def test_an_error_among_the_rows_is_the_servers_and_the_connection_lives(
    connection: Any, prepared: bool
) -> None:
    sql = "with recursive n (id) as (select 700 union all select id + 1 from n where id < 720) "
    with pytest.raises(pymysql.err.MySQLError) as caught:
        list(read_rows(connection, sql + "select id, exp(id) from n", prepared=prepared))
    assert caught.value.args[0] == 1690
    assert _read(connection, "select 2", 1 << 16) == [(b"2",)]
    with pytest.raises(pymysql.err.ProgrammingError):
        list(read_rows(connection, "selec", prepared=prepared))
    assert _read(connection, "select 3", 1 << 16) == [(b"3",)]


def test_rows_of_the_binary_protocol_leave_no_statement(connection: Any) -> None:
    sql = "select 7, 0.5e0, null, repeat('b', 300) union all select 8, 1.5e0, 'x', 'y'"
    for _ in range(3):
        blocks = list(read_rows(connection, sql, 1 << 12, prepared=True))
        rows = b"".join(block.data.tobytes() for block in blocks)
        assert sum(block.rows for block in blocks) == 2
        assert blocks[0].types is not None
        assert blocks[0].types[:2] in (b"\x08\x05", b"\x03\x05")
        assert all(value in rows for value in (b"\0\0\0\0\0\0\xe0?", b"b" * 300, b"\x01x\x01y"))
    assert _read(connection, "select 1", 1 << 20) == [(b"1",)]
    with connection.cursor() as cursor:
        cursor.execute("show session status like 'com_stmt_%'")
        counts = {str(name).lower(): int(count) for name, count in cursor.fetchall()}
    assert counts["com_stmt_prepare"] == counts["com_stmt_close"] == 3


def test_whoever_leaves_before_the_end_closes_the_connection(connection: Any) -> None:
    blocks = read_rows(
        connection, "select repeat('a', 10000) union all select repeat('b', 10000)", 1
    )
    next(blocks)
    blocks.close()
    assert not connection.open


def test_a_statement_without_rows_is_an_error(connection: Any) -> None:
    with pytest.raises(SnapshotReadBroken, match="no rows"):
        list(read_rows(connection, "set @a = 1"))


def test_a_session_that_is_killed_among_its_rows(database: Any) -> None:
    server = database("mariadb-11.4")
    connection = server.connect()
    number = connection.thread_id()
    large = " union all ".join(["select repeat('a', 15000000)"] * 8)
    blocks = read_rows(connection, large, 1 << 16)
    next(blocks)
    server.execute(f"kill {number}")
    with pytest.raises((SnapshotReadBroken, pymysql.err.MySQLError)):
        list(blocks)
    assert not connection.open
