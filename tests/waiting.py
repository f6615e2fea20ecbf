"""Waiting for what must come about, on machines that others use, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PATIENCE = 3
"""How many times as slow as the machines that the limits were written for a machine may be.

A limit says when to give up, and nothing of speed: a longer one costs a test that passes nothing.
"""


def until(look: Callable[[], Found], what: str, timeout_s: float = 60.0) -> Found:
    """Return the first truthy answer of ``look``; raise when time and patience are up.

    It asks often at first and five times a second later: to ask takes time from what is asked.
    """
    limit_s = PATIENCE * timeout_s
    deadline = time.monotonic() + limit_s
    pause_s = 0.02
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s:.0f} s: {what}")
        time.sleep(pause_s)
        pause_s = min(0.2, pause_s * 1.3)
