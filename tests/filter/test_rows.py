"""Rows ignored by the kind of their event, over references as the kernels make them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdc.coord.feed_config import EventFilterConfig
from cdc.kernels import layout as L  # noqa: N812
from filter.events import EventFilter
from filter.rows import EventRows, kinds

I, U, D = L.KIND_INSERT, L.KIND_UPDATE, L.KIND_DELETE  # noqa: E741


def refs(*rows: tuple[int, int, int, int]) -> NDArray[np.int64]:
    """Each (kind, plan, ts, row number)."""
    found = np.zeros((len(rows), L.R_SIZE), np.int64)
    for i, (kind, plan, ts, row) in enumerate(rows):
        found[i, [L.R_KIND, L.R_PLAN, L.R_TS, L.R_ROW]] = kind, plan, ts, row
    return found


def rows(*rules: EventFilterConfig) -> EventRows:
    return EventRows(EventFilter(rules), [("a", "t"), ("a", "u"), ("b", "t")])


def test_kinds_by_table() -> None:
    found = rows(
        EventFilterConfig(matcher=["a.t"], ignore_event=["insert"]),
        EventFilterConfig(matcher=["*.u"], ignore_event=["all dml"]),
        EventFilterConfig(matcher=["*.t"], ignore_event=["delete"]),
    )
    assert found
    given = refs(*((kind, plan, 9, 3 * plan + kind) for plan in range(3) for kind in (I, U, D)))
    kept = [(plan, kind) for plan in range(3) for kind in (I, U, D)]
    passing = [pair for pair, yes in zip(kept, found.keep(given), strict=True) if yes]
    assert passing == [(0, U), (2, I), (2, U)]
    assert not rows(EventFilterConfig(matcher=["a.t"], ignore_event=["drop table"]))


def test_a_partial_image_is_of_its_kind() -> None:
    assert list(kinds(refs((U | L.PARTIAL, 0, 1, 0), (D | L.PARTIAL, 0, 1, 1)))) == [U, D]


def test_a_split_update_is_one_update() -> None:
    given = refs((D, 0, 5, 0), (I, 0, 5, 0), (D, 0, 5, 1), (I, 0, 5, 2), (D, 0, 6, 2), (I, 1, 6, 2))
    assert list(kinds(given)) == [U, U, D, I, D, I]
    without = rows(EventFilterConfig(matcher=["a.t"], ignore_event=["insert", "delete"]))
    assert list(without.keep(given)) == [True, True, False, False, False, True]
    updates = rows(EventFilterConfig(matcher=["a.t"], ignore_event=["update"]))
    assert list(updates.keep(given)) == [False, False, True, True, True, True]


def test_no_rows() -> None:
    assert not len(kinds(refs()))
