"""Tables with other names at the target, and several that are one table there."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cdc.source.settings import SourceSettings
from cdc.verify.by_fold import ByFold
from cdc.verify.catalogue import table_info
from cdc.verify.fold import Fold, FoldedTable
from cdc.verify.fold_store import FoldStore
from cdc.verify.formats import TOPIC_FORMS
from cdc.verify.pair import Pair
from cdc.verify.report import ComparisonVerdict, RowKind, TableResult
from cdc.verify.running import ComparedTable, delivered
from cdc.verify.sessions import UpstreamServers
from cdc.verify.table import CompareOptions, compare_table
from sink.codec.protocols import Protocol
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.extracted import Given
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import TargetRouter
from tests.verify.sides import Still, Two, upstream

pytestmark = pytest.mark.real

_FOUR = "(SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS x"


def _compare(two: Two, matcher: str, target: str, **more: Any) -> list[TableResult]:
    rule = DispatcherSettings(matcher=[f"{two.schema}.{matcher}"], target_table=target)
    names = TargetRouter.of([rule], merging=True)
    run = two.prepare(names=names, chunk_rows=100)
    run.task = replace(run.task, **more)
    return two.finish(run).results


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


# A column, what rows of a table without it have at the target, and another value.
_ADDED = (
    ("a", "INT", "NULL", "0"),
    ("b", "BIGINT NOT NULL", "0", "1"),
    ("c", "VARCHAR(9) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'käse'", "'käse'", "'kase'"),
    ("d", "DECIMAL(6,3) DEFAULT 1.5", "1.5", "1.501"),
    ("e", "ENUM('x','y') NOT NULL DEFAULT 'y'", "'y'", "'x'"),
    ("f", "DATETIME(3) DEFAULT '2026-01-02 03:04:05.6'", "'2026-01-02 03:04:05.6'", "NULL"),
    ("g", "BIT(9) DEFAULT b'101'", "b'101'", "b'100'"),
    ("h", "FLOAT DEFAULT 0.1", "0.1", "0.2"),
    ("i", "BINARY(4) DEFAULT 'ab'", "'ab'", "'ab '"),
    ("j", "TEXT", "NULL", "''"),
)


@pytest.mark.parametrize(
    ("two", "key"),
    [(("mariadb-11.4", "mysql-8.0"), ", PRIMARY KEY (id)"), (("mysql-8.0", "mariadb-11.4"), "")],
    indirect=["two"],
    ids=["key", "no key"],
)
def test_rows_of_tables_that_lack_columns_are_compared_as_they_were_widened(
    two: Two, key: str
) -> None:
    definitions = ", ".join(f"{name} {kind}" for name, kind, *_ in _ADDED)
    # Types that differ, too: an optimistic group's target has the wider.
    two.ours.execute(
        f"CREATE TABLE t_0 (id INT NOT NULL, v VARCHAR(5){key})",
        "INSERT INTO t_0 VALUES (1, 'one'), (2, NULL), (5, 'five')",
        f"CREATE TABLE t_1 (id INT NOT NULL, v VARCHAR(2000), {definitions}{key})",
        "INSERT INTO t_1 (id, v, b) VALUES (3, 'three', 0)",
        f"CREATE TABLE t_2 (id INT NOT NULL, v VARCHAR(5), a INT{key})",
        "INSERT INTO t_2 VALUES (4, 'four', 4)",
        database=two.schema,
    )
    two.theirs.execute(
        f"CREATE TABLE t (id INT NOT NULL, v VARCHAR(2000), {definitions}{key})",
        "ALTER TABLE t ALTER b SET DEFAULT 0",
        "INSERT INTO t (id, v) VALUES (1, 'one'), (2, NULL), (5, 'five'), (3, 'three')",
        "INSERT INTO t (id, v, a) VALUES (4, 'four', 4)",
        database=two.schema,
    )
    (result,) = _compare(two, "t_*", "t", widened=True)
    assert (result.verdict, result.notes) == (ComparisonVerdict.EQUAL, [])
    assert (result.upstream_rows, result.target_rows) == (5, 5)
    assert _compare(two, "t_*", "t")[0].verdict is ComparisonVerdict.SKIPPED

    # Whichever column has another value there, it shows.
    for name, _, value, other in _ADDED:
        two.theirs.execute(f"UPDATE t SET {name} = {other} WHERE id = 1", database=two.schema)
        (result,) = _compare(two, "t_*", "t", widened=True)
        assert (result.verdict, result.different) == (ComparisonVerdict.DIFFERENT, 1), name
        two.theirs.execute(f"UPDATE t SET {name} = {value} WHERE id = 1", database=two.schema)
    # A default of the target that is not the shards' is no excuse for its rows.
    two.theirs.execute(
        "ALTER TABLE t ALTER c SET DEFAULT 'kase'", "UPDATE t SET c = 'kase' WHERE id IN (1, 2, 5)",
        database=two.schema,
    )  # fmt: skip
    (result,) = _compare(two, "t_*", "t", widened=True)
    assert (result.verdict, result.different) == (ComparisonVerdict.DIFFERENT, 3)


def test_a_column_that_a_table_has_dropped_is_compared_when_all_have(two: Two) -> None:
    two.ours.execute(
        "CREATE TABLE t_0 (id INT PRIMARY KEY)", "INSERT INTO t_0 VALUES (1), (2)",
        "CREATE TABLE t_1 (id INT PRIMARY KEY, w INT, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
        database=two.schema,
    )  # fmt: skip
    two.theirs.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, w INT, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
        "INSERT INTO t (id, w) VALUES (1, 7), (2, NULL)",
        database=two.schema,
    )

    def kept(_: object) -> Mapping[str, list[str]]:
        return {"w": [f"{two.schema}.t_0"]}

    (result,) = _compare(two, "t_*", "t", widened=True, kept=kept)
    assert result.verdict is ComparisonVerdict.EQUAL
    assert [note.partition(":")[0] for note in result.notes] == [
        "column w is not compared", "column at is not compared"
    ]  # fmt: skip
    (result,) = _compare(two, "t_*", "t", widened=True)
    assert (result.verdict, result.different) == (ComparisonVerdict.DIFFERENT, 1)


@pytest.mark.parametrize("key", ["PRIMARY KEY (id, c_table)", "KEY (id)"])
def test_rows_are_compared_with_their_own_table_where_a_column_says_it(two: Two, key: str) -> None:
    own = "id INT NOT NULL, v INT" + (", PRIMARY KEY (id)" if key.startswith("P") else "")
    for at in range(3):
        two.ours.execute(
            f"CREATE TABLE t_{at} ({own})", f"INSERT INTO t_{at} VALUES (1, {at}), (2, 5)",
            database=two.schema,
        )  # fmt: skip
    two.theirs.execute(
        f"CREATE TABLE t (id INT NOT NULL, v INT, c_table VARCHAR(20), {key})",
        "INSERT INTO t VALUES (1, 0, '0'), (2, 5, '0'), (1, 1, '1'), (2, 5, '1'), (1, 2, 'x'),"
        " (2, 5, 'x')",
        database=two.schema,
    )

    def given(_: str, table: str) -> Given:
        return (("c_table", table[-1].replace("2", "x")),)

    def compare() -> dict[str, TableResult]:
        return {r.table[-3:]: r for r in _compare(two, "t_*", "t", given=given)}

    results = compare()
    assert {name: r.verdict for name, r in results.items()} == dict.fromkeys(
        ("t_0", "t_1", "t_2"), ComparisonVerdict.EQUAL
    )
    assert {r.target_rows for r in results.values()} == {2}
    # A row that is another table's, and one of none.
    two.theirs.execute(
        "UPDATE t SET c_table = '0', id = 3 WHERE id = 2 AND c_table = '1'",
        "INSERT INTO t VALUES (1, 1, 'none')",
        database=two.schema,
    )
    results = compare()
    assert {name: r.different for name, r in results.items()} == {"t_0": 1, "t_1": 1, "t_2": 0}
    told = [line for r in results.values() for line in r.structure]
    assert told == ["1 rows have values of c_table that no table gives"]


class _NoView:
    """A target that is folded already."""

    def snapshot(self) -> None:
        """Read nothing more."""

    def interrupt(self) -> None:
        """Interrupt nothing."""

    def close(self) -> None:
        """Close nothing."""


@pytest.mark.parametrize(("changed", "different"), [({}, 0), ({"v": "8"}, 1), ({"w": "9"}, 1)])
def test_messages_of_tables_that_differ_are_compared_by_what_both_have(
    two: Two, changed: dict[str, str], different: int
) -> None:
    two.ours.execute(
        # Of row 3, which was there before its table got w, no message tells that it did.
        "CREATE TABLE t_0 (id INT PRIMARY KEY, v INT)", "INSERT INTO t_0 VALUES (1, 1)",
        "CREATE TABLE t_1 (id INT PRIMARY KEY, v INT, w INT DEFAULT 7)",
        "INSERT INTO t_1 VALUES (2, 2, 2), (3, 3, 7)",
        database=two.schema,
    )  # fmt: skip
    rows = [{"id": "1", "v": "1"}, {"id": "2", "v": "2", "w": "2"} | changed, {"id": "3", "v": "3"}]
    target = (two.schema, "t")
    made = FoldedTable(("id",))
    store = FoldStore()
    fold = Fold({target: made}, store, TOPIC_FORMS[Protocol.CANAL_JSON])
    for row in rows:
        body = {"type": "INSERT", "database": target[0], "table": "t", "data": [row], "old": None}
        fold.add(0, None, json.dumps(body).encode(), "")
    servers = UpstreamServers(upstream(two.ours), SourceSettings())
    pair = Pair(servers, _NoView(), Still(), threading.Event())
    try:
        infos = [table_info(servers.server(""), two.schema, f"t_{at}") for at in range(2)]
        parts = tuple(info for info in infos if info is not None)
        plan, why = delivered(ComparedTable(target, parts), ColumnSelectors(()), widened=True)
        assert (len(parts), why) == (2, "")
        result, options = TableResult("t"), CompareOptions(chunk_rows=100)
        way = ByFold(pair, plan, made, fold.topic_form, store, 100, True, widened=True)
        compare_table(pair, plan, way, options, result)
    finally:
        pair.close()
        store.close()
    assert (result.different, result.upstream_rows, result.target_rows) == (different, 3, 3)
