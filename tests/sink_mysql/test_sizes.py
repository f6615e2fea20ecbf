"""Rows of many packets, and transactions of many statements, by both ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.sink_mysql import sql_replay
from tests.sink_mysql.replay import Replay, same_schema

_PAIRS = [("mariadb-11.4", "mariadb-11.8"), ("mysql-8.0", "mysql-9.7")]
_MIB = 1 << 20
# As base64 or as hexadecimal more than the 16 MiB that one packet of the protocol holds.
ROW_BYTES = 13 * _MIB


@contextmanager
def _large_packets(*servers: Any) -> Iterator[None]:
    """New connections may send and be sent what a large row needs."""
    before = [server.execute("select @@global.max_allowed_packet")[0][0] for server in servers]
    for server in servers:
        server.execute(f"set global max_allowed_packet = {4 * ROW_BYTES}")
    try:
        yield
    finally:
        for server, size in zip(servers, before, strict=True):
            server.execute(f"set global max_allowed_packet = {size}")


def _sums(server: Any, schema: str) -> list[tuple[Any, ...]]:
    return server.execute(f"select id, length(v), sha2(v, 256) from {schema}.t order by id")


@pytest.mark.parametrize("way", ["rows", "sql"])
@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_a_row_of_many_packets(
    database: Any, fresh_name: str, one: str, other: str, way: str
) -> None:
    source, target = database(one), database(other)
    with _large_packets(source, target):
        source.execute(
            f"create database {fresh_name}",
            f"create table {fresh_name}.t (id int primary key, v longblob)",
            "flush binary logs",
            f"insert into {fresh_name}.t values (1, 'small')",
            f"insert into {fresh_name}.t values (2, repeat(x'005c27ff', {ROW_BYTES // 4}))",
            f"insert into {fresh_name}.t values (3, 'behind it')",
            f"update {fresh_name}.t set v = concat(v, 'x') where id = 1",
        )
        same_schema(source, target, fresh_name)
        replay = Replay.of(source, fresh_name)
        if way == "rows":
            replay.deliver(target)
        else:
            sql_replay.deliver(replay, target)
    assert _sums(target, fresh_name) == _sums(source, fresh_name)
