"""How many bytes of the log a window takes: less after one that was too much, more after others.

What a sink takes in one transaction has limits that nobody can ask for: a broker aborts what is
open for long, a group of servers refuses what is large. So the size is found by trying.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cdc.base.errors import ErrorKind, TidegateError
from sink.errors import WindowTooLarge

LEAST: Final = 16 << 10
"""No window is cut smaller, and none below one run or, where it must be whole, one transaction."""

_LONG_S: Final = 10.0
_MOST_PATIENCE: Final = 8


@dataclass(frozen=True, slots=True)
class WindowSize:
    """``now`` bytes, at most ``most``; after ``patience`` windows in a row it is tried to double.

    >>> size = WindowSize(8 << 20, 8 << 20).failed(8 << 20)
    >>> size.now >> 20, size.delivered(size.now).delivered(size.now).now >> 20
    (4, 8)
    """

    most: int
    now: int
    patience: int = 1
    delivered_so: int = 0

    def at_once(self, tasks: int) -> int | None:
        """Bytes that each of a window's tasks may have on their way; None if that is no matter.

        A small window may still be many messages: a line that is slow must pass each request in
        the time that it has, and a window is never smaller than one run.
        """
        return None if self.now >= self.most else max(LEAST, self.now // tasks)

    def failed(self, size: int) -> WindowSize:
        """Behind one of ``size`` bytes that may have been too much: half, and more patience."""
        patience = min(_MOST_PATIENCE, self.patience * 2)
        return WindowSize(self.most, max(LEAST, min(self.now, size) // 2), patience)

    def delivered(self, size: int) -> WindowSize:
        """Behind a window of ``size`` bytes; one that was not nearly full says nothing."""
        if self.now >= self.most or size < self.now // 2:
            return self
        if self.delivered_so + 1 < self.patience:
            return replace(self, delivered_so=self.delivered_so + 1)
        return WindowSize(self.most, min(self.most, self.now * 2), self.patience)


def may_be_too_much(error: TidegateError, seconds: float, patience_s: float) -> bool:
    """Whether a smaller window may not fail so; ``seconds`` are those that its job took.

    Brokers that are slow look as if they were away: what fails before the sink has lost its
    patience is another matter.
    """
    if isinstance(error, WindowTooLarge):
        return True
    return error.kind is ErrorKind.TRANSIENT and seconds >= min(_LONG_S, patience_s)
