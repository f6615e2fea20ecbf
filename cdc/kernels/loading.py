"""Loading one kernel module: compiled, or found in the cache.

Its own module, since a process that is spawned cannot import what is in ``__main__``.
"""

from __future__ import annotations

import importlib
import time

from cdc.kernels.compile import load_module


def load(name: str) -> float:
    """Load all that a module compiles, and warm it if it has a way for that; seconds taken."""
    started = time.monotonic()
    module = importlib.import_module(name)
    load_module(name)
    warm = getattr(module, "warm", None)
    if warm is not None:
        warm()
    return time.monotonic() - started
