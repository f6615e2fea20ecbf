"""How many rows the next chunk of a table has, so that each takes about the same time."""

from __future__ import annotations

from dataclasses import dataclass, replace

# One slow chunk, or one that was found in memory, moves the size by this factor at most.
_STEP = 2.0


@dataclass(frozen=True, slots=True)
class ChunkPace:
    """The size of the next chunk, in rows, between two bounds.

    ``target_s`` is how long a chunk should take.
    """

    rows: int
    target_s: float
    least: int
    most: int

    def measured(self, rows: int, seconds: float) -> ChunkPace:
        """The pace after a chunk that was planned for ``rows`` took ``seconds``.

        Planned ones and not those read: a condition that few rows meet makes chunks small, not
        slow. A chunk of unknown size (0) says nothing.
        """
        if rows <= 0:
            return self
        factor = _STEP if seconds <= 0 else self.target_s / seconds
        wanted = round(rows * min(max(factor, 1 / _STEP), _STEP))
        return replace(self, rows=min(max(wanted, self.least), self.most))
