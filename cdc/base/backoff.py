"""Exponential back-off as a value: the next delay is computed, the caller does the waiting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays ``first_s, first_s * factor, …`` up to ``max_s``; ``attempt`` counts failures."""

    first_s: float = 0.1
    factor: float = 2.0
    max_s: float = 10.0
    attempt: int = 0

    def delay_s(self) -> float:
        """Seconds to wait before the attempt that follows ``attempt`` failures."""
        if self.attempt == 0:
            return 0.0
        return min(self.max_s, self.first_s * self.factor ** min(self.attempt - 1, 32))

    def failed(self) -> Backoff:
        """The state after one more failure."""
        return Backoff(self.first_s, self.factor, self.max_s, self.attempt + 1)

    def succeeded(self) -> Backoff:
        """The state after a success."""
        return Backoff(self.first_s, self.factor, self.max_s, 0)
