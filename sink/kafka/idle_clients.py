"""Clients that are kept for a moment, for whoever needs one of the same kind next.

Where a capture starts, the sinks of many changefeeds are taken over, and each of them asks the
ledger several times. To open a client takes two connections and ten times the processor of what it
is then asked.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Client = TypeVar("Client")

# No longer than a client is sure to be as good as a new one.
_KEPT_S = 5.0
# Of one kind; as many as sinks are taken over at once.
_MOST = 8


class IdleClients(Generic[Client]):
    """Lends clients, each to one at a time; whoever has seen an error with one gives none back.

    ``close`` ends a client, and raises nothing. ``fit`` says whether one is as good as a new one.
    """

    def __init__(
        self,
        close: Callable[[Client], None],
        fit: Callable[[Client], bool] = lambda _: True,
        *,
        kept_s: float = _KEPT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._close = close
        self._fit = fit
        self._kept_s = kept_s
        self._clock = clock
        self._forget()
        # Connections of a process are not its child's.
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._guard = threading.Lock()
        self._idle: dict[Hashable, list[tuple[float, Client]]] = defaultdict(list)
        self._sweeping = False

    @contextmanager
    def lent(self, kind: Hashable, make: Callable[[], Client]) -> Iterator[Client]:
        """A client of ``kind``, which ``make`` makes where none is kept."""
        client = self._take(kind)
        if client is not None and not self._fit(client):
            self._close(client)
            client = None
        if client is None:
            client = make()
        try:
            yield client
        except BaseException:
            self._close(client)
            raise
        if not self._put(kind, client):
            self._close(client)

    def sweep(self) -> None:
        """End those that nobody has needed for as long as they are kept."""
        with self._guard:
            oldest_s = self._clock() - self._kept_s
            old = [c for line in self._idle.values() for at_s, c in line if at_s <= oldest_s]
            left = {k: [e for e in line if e[0] > oldest_s] for k, line in self._idle.items()}
            self._idle.clear()
            self._idle.update({kind: line for kind, line in left.items() if line})
            self._sweeping = False
            self._sweep_later()
        for client in old:
            self._close(client)

    def _take(self, kind: Hashable) -> Client | None:
        with self._guard:
            line = self._idle.get(kind)
            # The one that was used last: the others may grow old.
            if line and line[-1][0] > self._clock() - self._kept_s:
                return line.pop()[1]
            return None

    def _put(self, kind: Hashable, client: Client) -> bool:
        with self._guard:
            line = self._idle[kind]
            if len(line) >= _MOST:
                return False
            line.append((self._clock(), client))
            self._sweep_later()
            return True

    def _sweep_later(self) -> None:
        if any(self._idle.values()) and not self._sweeping:
            self._sweeping = True
            timer = threading.Timer(self._kept_s, self.sweep)
            timer.name, timer.daemon = "idle kafka clients", True
            timer.start()
