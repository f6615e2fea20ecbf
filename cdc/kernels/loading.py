"""Loading one kernel module: compiled, or found in the cache.

Its own module, since a process that is spawned cannot import what is in ``__main__``.
"""

from __future__ import annotations

import importlib
import time


def load(name: str) -> float:
    """Import a module, and warm it if it has a way for that; seconds that it took."""
    started = time.monotonic()
    warm = getattr(importlib.import_module(name), "warm", None)
    if warm is not None:
        warm()
    return time.monotonic() - started
