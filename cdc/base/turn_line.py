"""Few threads work at a time, and the others wait in line.

Of a thousand threads that are woken at once only one has Python's lock: each of the others asks for
it every 5 ms, which costs more than what they have to do. Whoever waits here is asleep.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class TurnLine:
    """At most ``at_once`` threads are inside, who leave wherever they wait for something.

    One that waits for the world all the same keeps nobody out for long: when nobody has left for
    ``patience_s``, whoever has waited as long goes in beside them.
    """

    def __init__(self, at_once: int, patience_s: float = 0.2) -> None:
        self._patience_s = patience_s
        self._guard = threading.Lock()
        self._room = at_once
        # A lock for each, held until its turn has come.
        self._line: deque[threading.Lock] = deque()
        self._left_at_s = time.monotonic()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Work, in one's turn."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Wait for something, of one that is inside; behind it, work in one's next turn."""
        self._leave()
        try:
            yield
        finally:
            self._enter()

    def _enter(self) -> None:
        with self._guard:
            if self._room > 0:
                self._room -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._line.append(mine)
        while not mine.acquire(timeout=self._patience_s):
            with self._guard:
                if time.monotonic() - self._left_at_s >= self._patience_s and mine in self._line:
                    self._line.remove(mine)
                    self._room -= 1
                    return

    def _leave(self) -> None:
        with self._guard:
            self._left_at_s = time.monotonic()
            self._room += 1
            if self._room > 0 and self._line:
                self._room -= 1
                self._line.popleft().release()
