"""What a comparison leaves for a repair: keys, as many as an order has room for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc.verify.by_key import ByKey
from cdc.verify.columns import ColumnInfo
from cdc.verify.job import Job, NothingToRepair
from cdc.verify.layout import TableInfo, layout
from cdc.verify.repair import MOST_CHARS, rows_to_repair

_COLUMNS = (
    ColumnInfo("a", "int", "int(11)"),
    ColumnInfo("b", "varchar", "varchar(700)", "utf8mb4", "utf8mb4_bin", 700),
)
_TABLE = TableInfo("shop", "t", _COLUMNS, ("a", "b"))
_PLAN = layout(_TABLE, _TABLE)[0]


def _repair(found: dict[Any, Any], **changes: Any) -> Any:
    pair: Any = None
    return ByKey(pair, replace(_PLAN, **changes), 100).repair(found)


def test_keys_are_told_with_those_that_only_the_target_has() -> None:
    rows = {("7", "61"): (1, 2), ("8", "62"): (None, 3), ("9", "63"): (4, None)}
    told = _repair(rows)
    assert (told.schema, told.name, told.key, told.rows) == ("shop", "t", ("a", "b"), 3)
    assert told.target_only == (("8", "62"),)
    assert told.condition.count(" OR ") == 2
    assert "(`a` = 7 AND `b` = _utf8mb4 X'61')" in told.condition
    both = told.beside(_repair({("5", "60"): (None, 1)}))
    assert (both.rows, both.target_only) == (4, (("5", "60"), ("8", "62")))
    assert both.condition.endswith(f" OR {told.condition}")


def test_a_key_of_another_type_is_not_told() -> None:
    other = ColumnInfo("a", "double", "double")
    table = replace(_TABLE, columns=(other, *_COLUMNS[1:]))
    assert rows_to_repair(layout(table, table)[0], {("x", "61"): (1, 2)}) is None


def test_long_keys_are_left_to_the_next_comparison() -> None:
    text = "e282ac" * 700
    told = _repair({(str(i), text): (None, i) for i in range(1000)})
    assert len(told.condition) < MOST_CHARS + 4 * told.rows
    assert 50 < told.rows == len(told.target_only) < 1000
    assert told.beside(told) is told


def test_rows_of_several_tables_are_not_told_apart_by_their_keys() -> None:
    several = (("shop", "t"), ("shop", "u"))
    assert _repair({("7", "61"): (1, 2)}, parts=several, sources=several) is None
    # Parts of one table are.
    assert _repair({("7", "61"): (1, 2)}, parts=several) is not None
    assert _repair({("7", "61"): (1, 2)}, condition="`of` = 'n1'") is None


def test_what_has_no_such_rows_is_not_repaired() -> None:
    class Ended:
        results: tuple[Any, ...] = ()

    run: Any = Ended()
    job = Job("f", run, lambda run: None, lambda: None, _Clock())  # type: ignore[arg-type]
    with pytest.raises(NothingToRepair, match="has not ended"):
        job.take_repairs()


class _Clock:
    def monotonic(self) -> float:
        return 0.0
