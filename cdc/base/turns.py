"""Turns of many for whom nothing is urgent, so many a second of all: few have theirs each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

PER_S = 50
"""What is done fifty times a second takes a few hundredths of a core."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Who is next, and how many turns there are by ``at_s``, of ``PER_S`` a second."""

    at_s: float
    left: float = float(PER_S)
    next: int = 0

    def earned(self, now_s: float) -> Turns:
        """With those of the time since; they gather for a second at most."""
        left = self.left + PER_S * (now_s - self.at_s)
        return replace(self, at_s=now_s, left=min(left, float(PER_S)))

    def spent(self, count: int) -> Turns:
        """Without as many, which somebody took for whom it was urgent."""
        return replace(self, left=max(0.0, self.left - count))

    def take(self, names: Sequence[str]) -> tuple[Turns, list[str]]:
        """Whose turn it is now; the others come next time.

        >>> turns, now = Turns(0.0, left=2.0).take(["a", "b", "c"])
        >>> now, turns.earned(1.0).take(["a", "b", "c"])[1][0]
        (['a', 'b'], 'c')
        """
        count = min(int(self.left), len(names))
        if not count:
            return self, []
        begin = self.next % len(names)
        chosen = [*names, *names][begin : begin + count]
        return replace(self, left=self.left - count, next=begin + count), chosen
