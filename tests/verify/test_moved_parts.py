"""Differences of a logical table count where the parts that were read are its parts still."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.logical.names import PartNames
from cdc.logical.parts import KnownParts
from cdc.verify.report import ComparisonVerdict, TableResult
from tests.verify.sides import Two

pytestmark = pytest.mark.real

_BEFORE = KnownParts(PartNames(("marked:{schema}.{table}_#",)))


def _compared(two: Two, now: KnownParts) -> TableResult:
    """The table ``t`` of two parts, of which the target has the rows of the first."""
    columns = "(id INT PRIMARY KEY)"
    two.ours.execute(
        *(f"CREATE TABLE t_{at} {columns}" for at in range(2)),
        *(f"INSERT INTO t_{at} VALUES ({at})" for at in range(2)),
        database=two.schema,
    )
    two.theirs.execute(f"CREATE TABLE t {columns}", "INSERT INTO t VALUES (0)", database=two.schema)
    run = two.prepare()
    run.task = replace(run.task, logical=_BEFORE, logical_now=lambda: now)
    (result,) = two.finish(run).results
    assert result.table == f"{two.schema}.t"
    return result


def test_rows_that_a_part_has_alone_are_missing(two: Two) -> None:
    result = _compared(two, _BEFORE)
    assert (result.verdict, result.different) == (ComparisonVerdict.DIFFERENT, 1)
    assert result.repair is not None


def test_of_parts_that_have_moved_nothing_is_proven_or_repaired(two: Two) -> None:
    parts = [("", two.schema, f"t_{at}") for at in range(2)]
    moved = KnownParts(_BEFORE.names.placed((two.schema, "t"), parts[:1], parts))
    result = _compared(two, moved)
    assert (result.verdict, result.different) == (ComparisonVerdict.UNSETTLED, 0)
    assert (result.repair, result.differences) == (None, [])
    assert "have moved" in result.notes[-1]


def test_parts_of_other_tables_may_move(two: Two) -> None:
    others = [("", two.schema, f"u_{at}") for at in range(2)]
    moved = KnownParts(_BEFORE.names.placed((two.schema, "u"), others[:1], others))
    assert _compared(two, moved).verdict is ComparisonVerdict.DIFFERENT
