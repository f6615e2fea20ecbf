"""How long it takes until a changefeed that is behind is not: by how it went while watched."""

from __future__ import annotations

from collections import deque

# A checkpoint moves by windows: a shorter look would tell of one of them.
_LEAST_MS, _LONGEST_MS = 2_000, 60_000
# Nearer to now than this it is not behind: a moment's rows are on their way.
_BEHIND_MS = 5_000


class CatchUp:
    """Of changefeeds by their ids. All moments are milliseconds of the server's clock."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[int, int]]] = {}

    def left_ms(self, feed: str, reached_ms: int, now_ms: int) -> int | None:
        """Milliseconds until it is at the present, if it goes on as it went for the last minute.

        ``reached_ms`` is its checkpoint's moment. None where that cannot be told: it is not behind,
        has been watched too shortly, or falls further behind.
        """
        seen = self._seen.setdefault(feed, deque())
        if seen and reached_ms < seen[-1][1]:
            # It goes on from elsewhere.
            seen.clear()
        seen.append((now_ms, reached_ms))
        while now_ms - seen[0][0] > _LONGEST_MS and len(seen) > 2:
            seen.popleft()
        passed, lag = now_ms - seen[0][0], now_ms - reached_ms
        gained = reached_ms - seen[0][1] - passed
        if passed < _LEAST_MS or lag < _BEHIND_MS or gained <= 0:
            return None
        return lag * passed // gained
