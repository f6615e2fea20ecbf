"""How often an address may come with a wrong token: a value with a clock.

A right token is let in whatever others do: all users of a host share its loopback address, and
many hosts share one behind a NAT, so a lock-out would be a weapon. Nor is it needed, since a token
cannot be guessed; the limit is for what tries, and for the logs of whoever watches it.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import OrderedDict, deque

from cdc.base.clock import Clock

FAILURES = 20
WINDOW_S = 60.0
# Of addresses beyond these the one that has not failed for longest is forgotten.
_PEERS = 1024


class Failures:
    """Wrong tokens by peer, at most ``FAILURES`` in ``WINDOW_S``; any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, address: str) -> float:
        """One more of an address; for how many seconds it is over the limit, 0: it is not.

        What comes while it is over does not make it longer.
        """
        peer = _peer(address)
        now_s = self._clock.monotonic()
        with self._lock:
            times = self._failed.setdefault(peer, deque(maxlen=FAILURES))
            self._failed.move_to_end(peer)
            if len(self._failed) > _PEERS:
                self._failed.popitem(last=False)
            left_s = times[0] + WINDOW_S - now_s if len(times) == FAILURES else 0.0
            if left_s > 0:
                return left_s
            times.append(now_s)
            return 0.0

    def __len__(self) -> int:
        """How many peers it remembers."""
        return len(self._failed)


def _peer(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if found.version == 4:
        return str(found)
    # One host has as many of these as it likes.
    return str(ipaddress.ip_network((found, 64), strict=False))
