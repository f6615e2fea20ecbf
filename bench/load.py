"""The loads: SQL text of rows with ten mixed columns, about 226 bytes each in the binlog."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from pymysql.constants import CLIENT

from tests.servers.database import Database

SCHEMA = "bench"
TABLE = "t"
CREATE = (
    f"CREATE DATABASE {SCHEMA}",
    f"""CREATE TABLE {SCHEMA}.{TABLE} (
  id bigint NOT NULL PRIMARY KEY,
  k int NOT NULL,
  big bigint unsigned NOT NULL,
  amount decimal(14,2) NOT NULL,
  ratio double NOT NULL,
  name varchar(40) NOT NULL,
  note varchar(160) NULL,
  flag tinyint(1) NOT NULL,
  created datetime(3) NOT NULL,
  ts timestamp(6) NOT NULL DEFAULT current_timestamp(6)
) DEFAULT CHARSET utf8mb4""",
)
INSERT = "INSERT INTO t (id,k,big,amount,ratio,name,note,flag,created) VALUES "

_STATEMENT_ROWS = 500
_PACKET_STATEMENTS = 400

_random = random.Random(7)
_NOTES = ["n" * 9 + f"{_random.getrandbits(32):08x}" * 17 for _ in range(997)]


def row(i: int) -> str:
    """The values of row ``i``."""
    return (
        f"({i},{i % 100003},{i * 2654435761 % (1 << 63)},{i % 1000000}.{i % 100:02d},{i / 7.0:.9f},"
        f"'name-{i:012d}-{i * 40503 & 0xFFFFFFFF:08x}','{_NOTES[i % 997]}',{i & 1},"
        f"'2026-0{1 + i % 9}-1{i % 10} 12:{i % 60:02d}:{i // 60 % 60:02d}.{i % 1000:03d}')"
    )


def bulk(rows: int, per_transaction: int = 2000, first: int = 1) -> Iterator[str]:
    """Statements that insert ``rows`` rows in transactions of ``per_transaction``."""
    end = first + rows
    for begin in range(first, end, per_transaction):
        stop = min(begin + per_transaction, end)
        yield "BEGIN"
        for i in range(begin, stop, _STATEMENT_ROWS):
            yield INSERT + ",".join(row(j) for j in range(i, min(i + _STATEMENT_ROWS, stop)))
        yield "COMMIT"


def single(transactions: int, first: int = 1) -> Iterator[str]:
    """Statements of one row each: in ten, six insert, three update, one deletes."""
    chosen = random.Random(11)
    alive: list[int] = []
    next_id = first
    for n in range(transactions):
        kind = n % 10
        if kind in (2, 4, 8) and alive:
            i = alive[chosen.randrange(len(alive))]
            yield f"UPDATE t SET k = k + 1, ratio = {n / 3:.6f}, ts = ts WHERE id = {i}"
        elif kind == 9 and alive:
            at = chosen.randrange(len(alive))
            alive[at], alive[-1] = alive[-1], alive[at]
            yield f"DELETE FROM t WHERE id = {alive.pop()}"
        else:
            yield INSERT + row(next_id)
            alive.append(next_id)
            next_id += 1


def run(database: Database, statements: Iterator[str]) -> None:
    """Execute statements in packets of many, as fast as one connection goes."""
    with _connection(database) as connection, connection.cursor() as cursor:
        packet: list[str] = []
        size = 0
        for statement in statements:
            packet.append(statement)
            size += len(statement)
            if len(packet) >= _PACKET_STATEMENTS or size > 1 << 20:
                _execute(cursor, packet)
                packet, size = [], 0
        if packet:
            _execute(cursor, packet)


def empty(database: Database) -> None:
    """Empty the table without a word in the binlog."""
    database.execute("SET sql_log_bin = 0", f"TRUNCATE {SCHEMA}.{TABLE}")


def _connection(database: Database) -> Any:
    return database.connect(database=SCHEMA, client_flag=CLIENT.MULTI_STATEMENTS)


def _execute(cursor: Any, packet: list[str]) -> None:
    cursor.execute(";".join(packet))
    while cursor.nextset():
        pass
