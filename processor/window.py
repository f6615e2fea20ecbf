"""Windows as values: what a changefeed has delivered, and what may come next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc.base.position import ROW_END, Position
from cdc.base.ts import Ts
from sink.contract import Destination


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
