"""Windows as values: what a changefeed has delivered, and what may come next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cdc.base.position import ROW_END, Position
from cdc.base.ts import Ts
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from sink.contract import Destination
from sink.dispatch.rules import Route


@dataclass(frozen=True, slots=True)
class Window:
    """``(lo, hi]`` of the log."""

    lo: Position
    hi: Position


def reach(position: Position, upper: Ts) -> Window | None:
    """Everything up to ``upper`` that is not delivered yet, or None if that is nothing.

    >>> reach(Position(5), 9).hi.ts
    9
    """
    hi = Position(upper, ROW_END)
    return Window(position, hi) if hi > position else None


def take(
    log: ChangeLog, lo: Position, hi: Position, tables: Collection[int], size: int, *, whole: bool
) -> tuple[Runs, Position]:
    """Runs of about ``size`` bytes of ``(lo, hi]``, and their end.

    ``whole``: no transaction is cut.
    """
    runs = log.runs(lo, hi, max_bytes=size, tables=tables)
    hi = log.end_position(runs, hi)
    if hi.whole() or not whole:
        return runs, hi
    before = int(np.searchsorted(runs.commit_ts, hi.ts, "left"))
    if before:
        return runs.slice(0, before), Position(hi.ts - 1)
    # One transaction that is larger than a window: its rows are streamed, never held.
    return log.runs(lo, Position(hi.ts), tables=tables), Position(hi.ts)


def weigh(runs: Runs, routes: Mapping[int, Route]) -> dict[Destination, int]:
    """Bytes of the runs by destination; ``routes`` by table id."""
    weights: dict[Destination, int] = {}
    if not len(runs):
        return weights
    ids, inverse = np.unique(runs.table, return_inverse=True)
    sums = np.bincount(inverse, weights=runs.length)
    for table_id, size in zip(ids.tolist(), sums.tolist(), strict=True):
        for destination, share in spread(routes[table_id].destinations(), int(size)).items():
            weights[destination] = weights.get(destination, 0) + max(1, share)
    return weights


def group(weights: Mapping[Destination, int], tasks: int) -> list[list[Destination]]:
    """Destinations in at most ``tasks`` groups of about equal weight, heaviest first.

    Greedy longest-processing-time rule (R. L. Graham, 1969). Deterministic: ties go by name.
    """
    groups: list[list[Destination]] = [[] for _ in range(max(1, min(tasks, len(weights))))]
    loads = [0] * len(groups)
    for destination in sorted(weights, key=lambda d: (-weights[d], d)):
        i = loads.index(min(loads))
        groups[i].append(destination)
        loads[i] += weights[destination]
    return [g for g in groups if g]


def spread(partitions: Sequence[Destination], size: int) -> dict[Destination, int]:
    """Weight ``size`` shared evenly by partitions whose rows are told apart by value."""
    return {p: size // len(partitions) for p in partitions}
