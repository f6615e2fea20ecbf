"""Python's collector of cycles, where it must not run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for cycles while very many objects are made that have none.

    Each search looks at all that is there, so that reading 100,000 tables takes twice as long. It
    holds for the process; inside of another pause, and where the collector is off, nothing changes.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
