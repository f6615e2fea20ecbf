"""Tables with other names at the target, and several that are one table there."""

from __future__ import annotations

import pytest

from cdc.verify.report import ComparisonVerdict, RowKind, TableResult
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import TargetRouter
from tests.verify.sides import Two

pytestmark = pytest.mark.real

_FOUR = "(SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS x"


def _compare(two: Two, matcher: str, target: str) -> list[TableResult]:
    rule = DispatcherSettings(matcher=[f"{two.schema}.{matcher}"], target_table=target)
    names = TargetRouter.of([rule], merging=True)
    return two.finish(two.prepare(names=names, chunk_rows=100)).results


def test_a_table_with_another_name_at_the_target(two: Two) -> None:
    rows = "(id INT PRIMARY KEY, v INT)"
    two.ours.execute(f"CREATE TABLE t {rows}", "CREATE TABLE u (v INT)", database=two.schema)
    two.theirs.execute(
        f"CREATE TABLE new_t {rows}", "CREATE TABLE new_u (v INT)", database=two.schema
    )
    two.ours.execute("INSERT INTO t VALUES (1, 1), (2, 2)", database=two.schema)
    two.theirs.execute("INSERT INTO new_t VALUES (1, 1), (2, 3)", database=two.schema)
    found = {r.table: r for r in _compare(two, "*", "new_{table}")}
    assert found[f"{two.schema}.u"].verdict is ComparisonVerdict.EQUAL
    result = found[f"{two.schema}.t"]
    assert (result.verdict, result.different) == (ComparisonVerdict.DIFFERENT, 1)
    assert [(v.upstream, v.target) for v in result.differences[0].values] == [("2", "3")]


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)", ", PRIMARY KEY (name)"])
def test_the_union_of_a_group_is_compared(two: Two, key: str) -> None:
    columns = f"(id INT NOT NULL, name VARCHAR(9) NOT NULL, v INT{key})"
    for at in range(3):
        numbers = f"SELECT 10000 * b.n + 1000 * c.n + 100 * d.n + {at}"
        two.ours.execute(
            f"CREATE TABLE t_{at} {columns}",
            f"INSERT INTO t_{at} SELECT i, CONCAT('n', i), i % 7 FROM ({numbers} AS i FROM"
            f" {_FOUR.replace('x', 'b')}, {_FOUR.replace('x', 'c')}, {_FOUR.replace('x', 'd')}) e",
            database=two.schema,
        )
    rows = [
        row for at in range(3) for row in two.ours.execute(f"SELECT * FROM {two.schema}.t_{at}")
    ]
    assert len(rows) == 192
    two.theirs.execute(
        f"CREATE TABLE t {columns}",
        f"INSERT INTO t VALUES {', '.join(str(row) for row in rows)}",
        database=two.schema,
    )
    (result,) = _compare(two, "t_*", "t")
    assert (result.table, result.verdict) == (f"{two.schema}.t", ComparisonVerdict.EQUAL)
    assert (result.upstream_rows, result.target_rows) == (192, 192)

    two.theirs.execute(
        "UPDATE t SET v = -1 WHERE id = 22200",
        "DELETE FROM t WHERE id = 33302",
        "INSERT INTO t VALUES (7, 'seven', 0)",
        database=two.schema,
    )
    (result,) = _compare(two, "t_*", "t")
    shown = [(d.kind, d.key["id"]) for d in result.differences if "id" in d.key]
    if key.endswith("(id)"):
        assert sorted(shown) == [
            (RowKind.CHANGED, "22200"),
            (RowKind.EXTRA, "7"),
            (RowKind.MISSING, "33302"),
        ]
    # Without a key a changed row is one too few and one too many.
    assert (result.verdict, result.different) == (ComparisonVerdict.DIFFERENT, 3 if key else 2)


def test_a_key_that_two_tables_of_a_group_have_is_a_difference(two: Two) -> None:
    columns = "(id INT PRIMARY KEY, v INT)"
    for at in range(2):
        two.ours.execute(
            f"CREATE TABLE t_{at} {columns}", f"INSERT INTO t_{at} VALUES (1, {at}), ({at + 5}, 0)",
            database=two.schema,
        )  # fmt: skip
    two.theirs.execute(
        f"CREATE TABLE t {columns}", "INSERT INTO t VALUES (1, 1), (5, 0), (6, 0)",
        database=two.schema,
    )  # fmt: skip
    (result,) = _compare(two, "t_*", "t")
    assert (result.verdict, result.different) == (ComparisonVerdict.DIFFERENT, 1)
    assert result.differences[0].key == {"id": "1"}


def test_a_group_whose_tables_are_not_alike_is_not_compared(two: Two) -> None:
    two.ours.execute(
        "CREATE TABLE t_0 (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE t_1 (id INT PRIMARY KEY, v INT, w INT)",
        database=two.schema,
    )
    two.theirs.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=two.schema)
    (result,) = _compare(two, "t_*", "t")
    # The target lacks the column, so all that both have is compared, and the difference is told.
    assert result.structure == ["column w is upstream only"]
    two.theirs.execute("ALTER TABLE t ADD w INT", database=two.schema)
    (result,) = _compare(two, "t_*", "t")
    assert result.verdict is ComparisonVerdict.SKIPPED
    assert "differ in column w" in result.notes[0]
