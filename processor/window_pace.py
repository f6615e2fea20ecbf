"""How long to rest behind a small window, so that a trickle of rows is delivered in groups.

A window costs some 15 ms of processor before it has delivered a row, and 40 ms where it is a job of
Spark's: at some dozens of transactions a second, each in a window of its own, that is a core. A row
that comes alone waits for nothing, and what follows it may be a load.
"""

from __future__ import annotations

import math

_MOST_S = 0.04
# A window of so many bytes of the log is worth its job.
_SMALL = 64 << 10
# Windows with less between them follow one another.
_CROWDED_S = 0.1


class WindowPace:
    """Remembers when the last window ended, in seconds (monotonic)."""

    def __init__(self) -> None:
        self._ended = -math.inf

    def rest_s(self, began: float, ended: float, size: int) -> float:
        """Seconds until the next window, behind one of ``size`` bytes: as long as it took, at most.

        For windows that have delivered all that there was: behind others more is waiting already.
        """
        crowded = began - self._ended < _CROWDED_S
        self._ended = ended
        return min(_MOST_S, ended - began) if crowded and size < _SMALL else 0.0
