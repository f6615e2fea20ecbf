"""Row filters over a real server's images: which rows of which kind they keep."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from cdc.rows.batch import RowBatch
from cdc.rows.route import Route, RouteMode
from cdc.schema.session import Session
from filter.expr import RowFilter, compile_filter, keep_rows
from filter.expr.errors import ExpressionFailed
from tests.codec.binlog_rows import locate_file, table_of

SESSION = Session(mariadb=True, version=(11, 4, 0))
STATEMENTS = (
    "insert into t values (1, 5, 'a', null), (2, 15, 'B', 1), (3, null, 'c', 1)",
    "update t set v = 7 where id = 1",
    "update t set v = 20, s = 'z' where id = 2",
    "update t set note = 9 where id = 3",
    "update t set id = 4 where id = 3",
    "delete from t where id = 1",
    "delete from t where id = 4",
)
# insert 1, 2, 3, update 1, 2, 3 (note), 3 (key), delete 1, 4
ALL = [True] * 9


@pytest.fixture(scope="module")
def binlog(mariadb: Any) -> Any:
    schema = "row_filter"
    mariadb.execute(
        f"create or replace database {schema}",
        f"create table {schema}.t (id int primary key, v int, s varchar(10) character set utf8mb4"
        " collate utf8mb4_general_ci, note int)",
        "flush binary logs",
    )
    mariadb.execute(*STATEMENTS, database=schema)
    table = table_of(mariadb, schema, "t")
    yield mariadb.binlogs()[-1].read_bytes(), table
    mariadb.execute(f"drop database {schema}")


@pytest.fixture
def located(binlog: Any) -> RowBatch:
    data, table = binlog
    return locate_file(data, {table.full_name: table})


def kept(located: RowBatch, **expressions: Any) -> list[bool]:
    table = located.plans.entries[0].table
    judge = compile_filter(table, SESSION, **expressions)
    found = pickle.loads(pickle.dumps(judge))
    assert isinstance(found, RowFilter)
    keep = keep_rows(located, {0: found})
    rows = np.arange(len(located.refs), dtype=np.int64)
    assert judge.keep(located, rows).tolist() == keep.tolist()
    return [bool(k) for k in keep]


def but(*skipped: int) -> list[bool]:
    return [i not in skipped for i in range(9)]


def test_each_kind_has_its_expression_and_null_keeps_the_row(located: RowBatch) -> None:
    assert kept(located, insert="v > 10") == but(1)
    assert kept(located, insert="NOT v > 10") == but(0)
    assert kept(located, delete="v > 6") == but(7)
    assert kept(located, insert="s = 'b'") == but(1)
    assert kept(located, insert="s COLLATE utf8mb4_bin = 'b'") == ALL
    assert kept(located, insert="NULL") == ALL
    assert kept(located, insert="TRUE") == but(0, 1, 2)


def test_an_update_is_skipped_by_its_old_or_its_new_values(located: RowBatch) -> None:
    assert kept(located, update_old="v = 5") == but(3)
    assert kept(located, update_new="v = 5") == ALL
    assert kept(located, update_new="v = 20") == but(4)
    assert kept(located, update_old="v = 5", update_new="v = 20") == but(3, 4)
    assert kept(located, update_old="id = 3") == but(5, 6)


def test_updates_of_some_columns_only(located: RowBatch) -> None:
    assert kept(located, update_only_columns=["note"]) == but(5)
    assert kept(located, update_only_columns=["NOTE", "v"]) == but(3, 5)
    assert kept(located, update_only_columns=["v", "s", "id"]) == but(3, 4, 6)
    assert kept(located, update_only_columns=["v", "s", "note", "id"]) == but(3, 4, 5, 6)


def test_an_update_that_was_split_is_judged_as_one(binlog: Any) -> None:
    data, table = binlog
    route = Route(RouteMode.COLUMNS, partitions=4, columns=(0,))
    split = locate_file(data, {table.full_name: table}, route=route)
    assert len(split.refs) == 10

    # The update of the key is rows 6 and 7 now.
    def cut(*skipped: int) -> list[bool]:
        return [i not in skipped for i in range(10)]

    assert kept(split, update_old="id = 3") == cut(5, 6, 7)
    assert kept(split, update_new="id = 4") == cut(6, 7)
    assert kept(split, insert="id = 4") == cut()
    assert kept(split, delete="id = 3") == cut()
    assert kept(split, update_only_columns=["id"]) == cut(6, 7)


def test_a_number_out_of_range_stops_with_the_row(located: RowBatch) -> None:
    table = located.plans.entries[0].table
    judge = compile_filter(table, SESSION, insert="v * 9223372036854775807 > 0")
    with pytest.raises(ExpressionFailed, match=r"row_filter\.t, row id=1") as caught:
        keep_rows(located, {0: judge})
    assert caught.value.hint
    assert kept(located, insert="v < 100 OR v * 9223372036854775807 > 0") == but(0, 1)
