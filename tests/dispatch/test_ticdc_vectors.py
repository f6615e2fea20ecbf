"""Partitions of rows and tables that TiCDC's own tests expect, of rows of a real server.

The figures are TiCDC's (its partition dispatchers' tests, 16 partitions); none is computed here.
"""

from __future__ import annotations

from typing import Any

import pytest

from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.route import Route as CodecRoute
from cdc.rows.route import RouteMode
from cdc.schema.table import Table
from sink.dispatch.rules import DispatcherSettings, Router
from tests.codec.binlog_rows import locate_file, table_of

PARTITIONS = 16

# A table, and of each row the partition that it goes to by its key.
ROWS = [
    ("t1", "(a int primary key, b int)", [("(11, 12)", 2), ("(22, 22)", 11)]),
    ("t1", "(COL2 int not null, Col1 int not null, c int, unique key (COL2, Col1))",
     [("(22, 11, 33)", 5)]),
    ("t2", "(a int, b int, primary key (a, b))",
     [("(11, 22)", 5), ("(11, 0)", 14), ("(11, 33)", 2)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "partition"), [("t1", 15), ("t2", 5)])
def test_the_partition_of_a_table(name: str, partition: int) -> None:
    router = Router([], "topic", {"topic": PARTITIONS})
    assert router.route(Table("test", name, ())).constant == partition


@pytest.mark.parametrize(("name", "definition", "rows"), ROWS)
def test_the_partition_of_a_row(
    mariadb: Any, name: str, definition: str, rows: list[tuple[str, int]]
) -> None:
    # The hash holds the schema's name, and TiCDC's tests call it test.
    mariadb.execute("drop database if exists test", "create database test", "flush binary logs")
    values = ", ".join(text for text, _ in rows)
    mariadb.execute(
        f"create table {name} {definition}", f"insert into {name} values {values}", database="test"
    )
    table = table_of(mariadb, "test", name)
    rule = DispatcherSettings.model_validate({"matcher": ["*.*"], "partition": "index-value"})
    route = Router([rule], "topic", {"topic": PARTITIONS}).route(table)
    columns = tuple(table.positions[c.lower()] for c in route.columns)
    encoded = CodecRoute(RouteMode.COLUMNS, PARTITIONS, base=0, columns=columns)
    data = mariadb.binlogs()[-1].read_bytes()
    located = locate_file(data, {f"test.{name}": table}, route=encoded)
    assert located.refs[:, L.R_DESTINATION].tolist() == [partition for _, partition in rows]
