"""What the log says of the rows of a table between two ts: which keys were touched, what is left.

A table that is read at many moments is brought to one ts by this: of a row whose key was touched
since, what was read does not count; the last image that the log has of it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.binlog.table_map import TableMap
from cdc.changelog.index import Runs
from cdc.changelog.names import data_name
from cdc.changelog.reader import ChangeLog
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.rows.plan import PlanBuilder, PlanSet, planned
from cdc.rows.route import Route, RouteMode
from cdc.schema.table import Table
from cdc.snapshot.keys import Image, check_key_form, key_hashes

Hashes = NDArray[np.uint64]

# Only where rows lie is asked, not where they go.
_ROUTE = Route(RouteMode.CONSTANT, 1, 0)
_BATCH_BYTES = 32 << 20
NO_IMAGE = -1
"""Where a row that goes lies behind its change."""


@dataclass(frozen=True)
class Touched:
    """Keys of one table that rows of the log touch.

    ``keys`` uint64[n, 2] are their hashes, rising. ``images`` int64[m, 4] say where the last image
    of those lies that are still there: id of the table in the log's dictionary, segment, offset and
    end; in the order of the log.
    """

    keys: Hashes
    images: NDArray[np.int64]

    @classmethod
    def none(cls) -> Touched:
        """Nothing was touched."""
        return cls(np.empty((0, 2), np.uint64), np.empty((0, 4), np.int64))

    def leaving(self) -> TouchedRows:
        """What is to be left out of the rows that were read."""
        return TouchedRows(self)

    def holds(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of these keys (uint64[k, 2]) are among them: bool[k]."""
        found: NDArray[np.bool_] = np.isin(hashes[:, 0], self.keys[:, 0])
        # Pairs are slow to compare, so only those are whose first half is there.
        likely = np.flatnonzero(found)
        found[likely] = np.isin(as_one(hashes[likely]), as_one(self.keys))
        return found


class TouchedRows:
    """Leaves out the rows whose key was touched."""

    def __init__(self, touched: Touched) -> None:
        self._touched = touched

    @property
    def nothing(self) -> bool:
        """Whether all rows stay."""
        return not len(self._touched.keys)

    def kept(self, hashes: Hashes) -> NDArray[np.bool_]:
        """bool[k]: which rows of these keys (uint64[k, 2]) are not left out."""
        return ~self._touched.holds(hashes)

    def check(self, table: str) -> None:
        """A touched key need not have been among the rows that were read."""


def rows_plan(table: Table, stored: TableMap) -> PlanSet:
    """What locates the rows of one table. Raises as ``cdc.rows.plan.planned``."""
    builder = PlanBuilder()
    builder.add(planned(table, stored, _ROUTE))
    return builder.build("UTC")


def run_matrix(runs: Runs) -> NDArray[np.int64]:
    """int64[len(runs), RUN_SIZE]: runs of one table as ``RowBatch`` takes them."""
    matrix = np.zeros((len(runs), L.RUN_SIZE), np.int64)
    matrix[:, L.RUN_OFFSET] = runs.offset
    matrix[:, L.RUN_LENGTH] = runs.length
    matrix[:, L.RUN_TS] = runs.commit_ts
    matrix[:, L.RUN_FIRST_ROW] = runs.first_row
    matrix[:, L.RUN_TAKE] = runs.rows
    return matrix


def touched(log: ChangeLog, table: Table, ids: Mapping[int, TableMap], lo: Ts, hi: Ts) -> Touched:
    """What rows with ``lo < ts <= hi`` touch of a table that stays as it is between these ts.

    ``ids``: those that the log's dictionary has of it. Memory: some 80 bytes for each row of the
    log. Raises LogCollected, LogCorrupt, ``RowImageNotFull``, what ``planned`` and
    ``check_key_form`` raise.
    """
    return _last(*changes(log, table, table.handle_key, ids, lo, hi))


def changes(
    log: ChangeLog,
    table: Table,
    columns: Sequence[int],
    ids: Mapping[int, TableMap],
    lo: Ts,
    hi: Ts,
) -> tuple[Hashes, NDArray[np.int64]]:
    """``(hashes, places)`` of all images of those rows, in the order of the log.

    Hashes uint64[n, 2] are of ``columns`` (ordinals); places int64[n, 4] are as in ``Touched``,
    with ``NO_IMAGE`` for an image that a row had before. Errors as of :func:`touched`.
    """
    hashes, places = [np.empty((0, 2), np.uint64)], [np.empty((0, 4), np.int64)]
    plans: dict[int, PlanSet] = {}
    for table_id, segment, chunk in _chunks(log, ids, lo, hi):
        plan = plans.get(table_id)
        if plan is None:
            check_key_form(table, columns, ids[table_id])
            plan = plans[table_id] = rows_plan(table, ids[table_id])
        rows = int(chunk.rows.sum())
        batch = RowBatch(log.segment(segment), run_matrix(chunk), rows, plan, data_name(segment))
        keys, place = _both_images(batch, columns)
        place[:, 0], place[:, 1] = table_id, segment
        hashes.append(keys)
        places.append(place)
    return np.concatenate(hashes), np.concatenate(places)


def _both_images(batch: RowBatch, columns: Sequence[int]) -> tuple[Hashes, NDArray[np.int64]]:
    """Hashes of both images of each row, and where those lie that a row leaves behind."""
    refs = batch.refs
    n = len(refs)
    keys = np.zeros((2 * n, 2), np.uint64)
    keys[0::2] = key_hashes(batch, columns, Image.BEFORE)
    keys[1::2] = key_hashes(batch, columns, Image.AFTER)
    place = np.full((2 * n, 4), NO_IMAGE, np.int64)
    place[1::2, 2] = refs[:, L.R_AFTER]
    place[1::2, 3] = refs[:, L.R_END]
    there = np.empty(2 * n, np.bool_)
    there[0::2] = refs[:, L.R_BEFORE] >= 0
    there[1::2] = refs[:, L.R_AFTER] >= 0
    return keys[there], place[there]


def _last(keys: Hashes, places: NDArray[np.int64]) -> Touched:
    """Of each key the last image, in the order of the log, of keys that are still there."""
    # Sorted by key, the order of the log within each: lexsort is stable.
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    keys = keys[order]
    ends = np.ones(len(keys), np.bool_)
    ends[:-1] = (keys[1:] != keys[:-1]).any(axis=1)
    last = np.sort(order[ends])
    images = places[last]
    return Touched(keys[ends], images[images[:, 2] != NO_IMAGE])


def _chunks(
    log: ChangeLog, ids: Mapping[int, TableMap], lo: Ts, hi: Ts
) -> Iterator[tuple[int, int, Runs]]:
    """``(table id, segment, runs)`` of consecutive runs, in the order of the log."""
    at, end = Position(lo), Position(hi)
    while at < end:
        runs = log.runs(at, end, max_bytes=_BATCH_BYTES, tables=ids.keys())
        at = log.end_position(runs, end)
        if not len(runs):
            return
        # The window begins behind whole transactions, and goes on where the last one ended.
        log.verify(runs)
        cuts = np.flatnonzero((np.diff(runs.segment) != 0) | (np.diff(runs.table) != 0)) + 1
        first = 0
        for last in [*cuts.tolist(), len(runs)]:
            yield int(runs.table[first]), int(runs.segment[first]), runs.slice(first, last)
            first = last


def as_one(hashes: Hashes) -> NDArray[Any]:
    """Pairs as one value each, for sets."""
    return np.ascontiguousarray(hashes).view([("a", np.uint64), ("b", np.uint64)]).reshape(-1)
