"""How long a log is waited for that is to come to a place."""

from __future__ import annotations

from cdc.base.clock import Clock
from cdc.base.ts import Ts
from cdc.source.settings import SourceSettings

_TIMES = 8
"""So many times the silence of a server a log may take that comes nearer."""


class Coming:
    """Says when a log is given up: while it comes no further it is waited for as long as for a
    server that says nothing, and longer while it does, as one that was just made anew.
    """

    def __init__(self, resolved_ts: Ts, settings: SourceSettings, clock: Clock) -> None:
        self._clock = clock
        self._silence_s = settings.silence_s
        self._resolved_ts = resolved_ts
        self._moved_s = self._began_s = clock.monotonic()

    def given_up(self, resolved_ts: Ts) -> bool:
        """Whether it has taken too long; it is resolved up to ``resolved_ts`` now."""
        now_s = self._clock.monotonic()
        if resolved_ts > self._resolved_ts:
            self._resolved_ts, self._moved_s = resolved_ts, now_s
        silent = now_s - self._moved_s > self._silence_s
        return silent or now_s - self._began_s > _TIMES * self._silence_s
