"""How late it is at the server: what times of events are held against."""

from __future__ import annotations

from dataclasses import dataclass

# Times of events, and jumps of the clock, up to here are believed.
SLACK_US = 60_000_000


@dataclass(frozen=True, slots=True)
class ServerClock:
    """The server's clock as it was believed last, continued by our monotonic one.

    ``heard_us`` at ``heard_s`` (monotonic, taken before we asked, so that the estimate is never
    early); 0: never heard. ``skew_us``: the server's clock minus ours, at the last answer.
    """

    heard_us: int = 0
    heard_s: float = 0.0
    skew_us: int = 0

    def heard(self, clock_us: int, at_s: float, ours_us: int) -> ServerClock:
        """With one more answer; ``ours_us`` is our own wall clock of then.

        A jump ahead is only believed if it brings the server's clock to ours. Back it may always
        go: ts never do.
        """
        skew = clock_us - ours_us
        jump = self.heard_us and clock_us > self._now_us(at_s) + SLACK_US
        if jump and skew > SLACK_US:
            return ServerClock(self.heard_us, self.heard_s, skew)
        return ServerClock(clock_us, at_s, skew)

    def now_us(self, now_s: float, ours_us: int) -> int:
        """How late it may be at most, in microseconds: by the server's clock or by ours."""
        return max(self._now_us(now_s), ours_us)

    def latest_us(self, now_s: float, ours_us: int) -> int:
        """No later time of an event is believed."""
        return self.now_us(now_s, ours_us) + SLACK_US

    def _now_us(self, now_s: float) -> int:
        return self.heard_us + int((now_s - self.heard_s) * 1e6)
