"""Backing off of a changefeed as a value (TiCDC's rules)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc.base.ts import Ts


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``first_s``, doubled up to ``max_s``; failed for good after ``stuck_s`` without progress."""

    first_s: float = 10.0
    factor: float = 2.0
    max_s: float = 600.0
    stuck_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class Retry:
    """Failures since the last lasting success.

    ``since_ms``: the first failure without progress since; 0: none. ``next_ms``: when to try
    again. ``last_ms``: the last failure. ``checkpoint_ts``: progress when last tried again.
    """

    attempt: int = 0
    since_ms: int = 0
    last_ms: int = 0
    next_ms: int = 0
    checkpoint_ts: Ts = 0

    def failed(self, now_ms: int, policy: RetryPolicy) -> Retry:
        """After one more failure; a failure long after the last one starts from the beginning."""
        quiet_ms = 60_000 + 2 * (self.next_ms - self.last_ms)
        fresh = self.since_ms == 0 and now_ms - self.last_ms > quiet_ms
        attempt = 1 if fresh else self.attempt + 1
        delay_s = min(policy.max_s, policy.first_s * policy.factor ** min(attempt - 1, 32))
        return Retry(
            attempt,
            self.since_ms or now_ms,
            now_ms,
            now_ms + int(delay_s * 1000),
            self.checkpoint_ts,
        )

    def retried(self, checkpoint_ts: Ts) -> Retry:
        """Delivery starts again from a checkpoint."""
        return replace(self, checkpoint_ts=checkpoint_ts)

    def succeeded(self) -> Retry:
        """Progress was made: the budget starts anew; the attempts count until it stays calm."""
        return replace(self, since_ms=0)

    def exhausted(self, now_ms: int, policy: RetryPolicy) -> bool:
        """Whether the retries have used up their time."""
        return self.since_ms > 0 and now_ms - self.since_ms > policy.stuck_s * 1000
