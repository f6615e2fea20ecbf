"""How fast rows may be read, as a value: the upstream has other work than to be copied."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RowRate:
    """At most ``per_second`` rows, 0 is no limit; what was read holds back what comes next.

    ``free_s`` (monotonic): when what was read so far has had its time. Time in which nothing is
    read is not made up for.
    """

    per_second: int
    free_s: float = 0.0

    def read(self, rows: int, now_s: float) -> RowRate:
        """The rate after so many rows, whose reading began at ``now_s``."""
        if not self.per_second:
            return self
        return replace(self, free_s=max(self.free_s, now_s) + rows / self.per_second)

    def wait_s(self, now_s: float) -> float:
        """Seconds until more may be read."""
        return max(0.0, self.free_s - now_s)
