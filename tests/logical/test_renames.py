"""Columns that a part has renamed are those of the logical table until its mark, and no longer."""

from __future__ import annotations

import pytest

from cdc.binlog.query import StatusVariables
from cdc.logical.errors import ShapeUnclear
from cdc.logical.renames import ColumnRenames, renamed_by
from cdc.logical.shape import shape
from cdc.schema.ddl import read_ddl
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.snapshot.table_map import table_map
from cdc.source.statements import LoggedDdl

SESSION = Session(default_schema="p")
PART, TABLE = ("p", "t_0"), ("shop", "t")


def told(ts: int, sql: str) -> LoggedDdl:
    return LoggedDdl(ts, sql, SESSION, StatusVariables(), 0, read_ddl(sql, SESSION))


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("ALTER TABLE t_0 RENAME COLUMN A TO b, ADD x INT", {"b": "a"}),
        ("ALTER TABLE t_0 CHANGE a B INT, CHANGE c c BIGINT", {"b": "a"}),
        ("ALTER TABLE t_0 RENAME COLUMN a TO b, RENAME COLUMN b TO a", {"b": "a", "a": "b"}),
        ("ALTER TABLE t_0 MODIFY a BIGINT, DROP b", {}),
        ("RENAME TABLE t_0 TO t_1", {}),
    ],
)
def test_statements_tell_what_they_rename(sql: str, wanted: dict[str, str]) -> None:
    assert renamed_by(read_ddl(sql, SESSION)) == wanted


def test_names_are_told_from_a_parts_statement_to_the_mark() -> None:
    renames = ColumnRenames()
    renames.follow("n1", [told(10, "ALTER TABLE t_0 RENAME COLUMN a TO b")])
    renames.follow("n1", [told(20, "ALTER TABLE t_0 RENAME COLUMN b TO c, RENAME COLUMN x TO y")])
    renames.follow("n2", [told(12, "ALTER TABLE t_0 RENAME COLUMN a TO b")])
    assert renames.at("n1", PART, TABLE, 9) == {}
    assert renames.at("n1", PART, TABLE, 10) == {"b": "a"}
    assert renames.at("n1", PART, TABLE, 25) == {"c": "a", "y": "x"}
    # Where a log is read on from 15, what lies below must have been kept, and nothing twice.
    kept = ColumnRenames.of(renames.to_dict({"n1": 15, "n2": 15}))
    kept.follow("n1", [told(10, "ALTER TABLE t_0 RENAME COLUMN a TO b")])
    kept.follow("n1", [told(20, "ALTER TABLE t_0 RENAME COLUMN b TO c, RENAME COLUMN x TO y")])
    assert kept.at("n1", PART, TABLE, 25) == {"c": "a", "y": "x"}
    assert kept.at("n2", PART, TABLE, 25) == {"b": "a"}
    kept.mark(TABLE, {"n1": 15, "n2": 15})
    assert kept.at("n1", PART, TABLE, 25) == {"c": "b", "y": "x"}
    assert kept.at("n2", PART, TABLE, 25) == {}
    kept.forget({"n1": 14, "n2": 15}, {("n1", *PART): TABLE, ("n2", *PART): TABLE})
    assert kept.at("n1", PART, TABLE, 25) == {"c": "b", "y": "x"}
    assert set(kept.marked) == {("n1", *TABLE)}
    # A statement below a mark, read again, is done with.
    again = ColumnRenames.of(kept.to_dict({"n1": 14, "n2": 15}))
    again.follow("n1", [told(15, "ALTER TABLE t_0 RENAME COLUMN a TO b")])
    assert again.at("n1", PART, TABLE, 25) == {}


def test_what_is_pending_lies_at_other_ts_in_other_logs() -> None:
    old, new = "ALTER TABLE t_0 RENAME COLUMN a TO b", "ALTER TABLE t_0 RENAME COLUMN b TO c"
    renames = ColumnRenames()
    renames.follow("n1", [told(10, old), told(20, new)])
    renames.mark(TABLE, {"n1": 15})
    tables = {("n1", *PART): TABLE}
    # Until all is passed over that was merged, whatever is read of n1 is known.
    passing = renames.over_other_logs({}, {"n1": 1 << 60}, tables)
    passing.follow("n1", [told(2, old), told(4, new)])
    passed = passing.over_other_logs({"n1": 5}, {"n1": 5}, tables)
    passed.follow("n1", [told(2, old), told(4, new)])
    # What the mark was behind is not known again, what is behind the mark is.
    assert passed.at("n1", PART, TABLE, 9) == {"c": "b"}
    passed.follow("n1", [told(12, "ALTER TABLE t_0 RENAME COLUMN c TO d")])
    assert passed.at("n1", PART, TABLE, 13) == {"d": "b"}
    assert passed.at("n1", PART, TABLE, 11) == {"c": "b"}


def parsed(schema: str, columns: str) -> Table:
    text = f"CREATE TABLE t ({columns})"
    return parse_create_table(text, SESSION, schema=schema, charset="utf8mb4", collation=None)


def test_a_column_that_was_renamed_keeps_its_values() -> None:
    part, logical = parsed("p", "id INT, b INT, c INT"), parsed("shop", "id INT, a INT, c INT")
    stored = table_map(part, 5, "mysql")
    with pytest.raises(ShapeUnclear, match="renamed"):
        shape(stored, part, logical, "mysql")
    assert shape(stored, part, logical, "mysql", renamed={"b": "a"}).same
    # Names that were exchanged are seen, though every column is there by its name.
    crossed = shape(stored, part, part, "mysql", renamed={"b": "c", "c": "b"})
    assert crossed.columns is not None
    assert crossed.columns[:, 1].tolist() == [0, 2, 1]
    # One that took the name of another that is there still.
    with pytest.raises(ShapeUnclear, match="one another's names"):
        shape(stored, part, logical, "mysql", renamed={"b": "c"})
