"""One table: swept, narrowed to rows, and these looked at again until they stand still."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

from cdc.verify.by_bucket import ByBucket
from cdc.verify.by_key import ByKey
from cdc.verify.delivery import UpstreamMoment
from cdc.verify.differences import Found, settle
from cdc.verify.keys import Key
from cdc.verify.layout import ComparedColumns
from cdc.verify.pair import Pair, ServerPair
from cdc.verify.repair import RowsToRepair
from cdc.verify.report import ComparisonVerdict, RowDifference, TableResult

# So many rows are proven different; what else differs is only said.
_MOST_ROWS = 1000
_PAUSE_S = 0.5

Suspect = TypeVar("Suspect")


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """``limit``: differing rows shown of a table. ``rechecks``: how often a row must differ again
    in the same way, if its table is written to. ``chunk_rows``: rows of a chunk. ``whole``: a topic
    is expected to hold every row of its tables. ``wait_s``: how long to wait for the changefeed.
    """

    limit: int = 20
    rechecks: int = 5
    chunk_rows: int = 10_000
    workers: int = 4
    whole: bool = False
    wait_s: float = 60.0


class Way(Protocol[Suspect]):
    """A way of comparing: what is suspected, which rows those are, and what they hold."""

    def sweep(self, result: TableResult) -> list[Suspect]:
        """Compare everything; the parts that differ."""

    def narrow(self, suspect: Suspect) -> Iterator[Found]:
        """The rows of a part that differ now, in portions."""

    def look(self, wanted: Collection[Key]) -> Found:
        """What both sides have of single rows."""

    def describe(self, found: Found, limit: int) -> tuple[int, list[RowDifference]]:
        """How many rows these are, and at most ``limit`` of them with their values."""

    def count(self, found: Found) -> int:
        """About how many rows these are."""

    def repair(self, found: Found) -> RowsToRepair | None:
        """What would bring these rows again; None where that cannot be."""


def compare_table(
    pair: Pair, layout: ComparedColumns, way: Way[Any], options: CompareOptions, result: TableResult
) -> None:
    """Compare a table at cuts of ``pair`` and write into ``result`` what it is."""
    result.rows = layout.rows
    pair.fresh()
    began = pair.marked
    if not _behind(pair, layout, result):
        _compare(way, pair, layout, options, result)
        result.exact = not _moved(pair, layout, began)
        result.judge()
        if result.verdict is not ComparisonVerdict.EQUAL:
            # Rows may have come that a changefeed which stands still will not deliver.
            _behind(pair, layout, result)


def way_of(pair: ServerPair, layout: ComparedColumns, options: CompareOptions) -> Way[Any]:
    """How a table of two servers is compared."""
    if layout.by_range:
        return ByKey(pair, layout, options.chunk_rows)
    return ByBucket(pair, layout)


def _moved(pair: Pair, layout: ComparedColumns, since: UpstreamMoment) -> bool:
    return any(pair.delivery.moved(*source, since) for source in layout.sources)


def _behind(pair: Pair, layout: ComparedColumns, result: TableResult) -> bool:
    rows = sum(pair.delivery.behind(*source) for source in layout.sources)
    if rows:
        result.verdict = ComparisonVerdict.BEHIND
        result.notes.append(f"{rows} rows are not delivered, and delivery stands still")
    return rows > 0


def _compare(
    way: Way[Suspect],
    pair: Pair,
    layout: ComparedColumns,
    options: CompareOptions,
    result: TableResult,
) -> None:
    suspects = way.sweep(result)
    portions = (found for suspect in suspects for found in way.narrow(suspect))
    judged: set[Key] = set()
    for portion in _parts(portions):
        part = {k: v for k, v in portion.items() if k not in judged}
        judged |= part.keys()
        if result.different >= _MOST_ROWS:
            result.more = True
            return
        _settle(way, pair, layout, part, options, result)


def _parts(portions: Iterator[Found]) -> Iterator[Found]:
    for found in portions:
        rest = iter(found.items())
        while part := dict(islice(rest, _MOST_ROWS)):
            yield part


def _settle(
    way: Way[Suspect],
    pair: Pair,
    layout: ComparedColumns,
    found: Found,
    options: CompareOptions,
    result: TableResult,
) -> None:
    """Look again at later cuts: a row that differs is one that differs again in the same way.

    Once more is enough if nothing was written to the table meanwhile. Else the cuts of the two
    sides are apart by what was, and a row that changes to and fro could look the same twice.
    """
    looks: dict[Key, int] = {}
    for attempt in range(1 + options.rechecks):
        if not found:
            return
        if attempt and pair.stop.wait(_PAUSE_S):
            pair.check()
        since = pair.marked
        pair.renew()
        settled = settle(found, way.look(found))
        enough = options.rechecks if _moved(pair, layout, since) else 1
        looks = {key: looks.get(key, 0) + 1 for key in settled.real}
        real = {key: v for key, v in settled.real.items() if looks[key] >= enough}
        if real:
            room = options.limit - len(result.differences)
            count, shown = way.describe(real, max(0, room))
            result.different += count
            result.differences += shown
            if (repair := way.repair(real)) is not None:
                result.repair = repair.beside(result.repair)
        found = {k: v for k, v in {**settled.open, **settled.real}.items() if k not in real}
    result.unsettled += way.count(found)
