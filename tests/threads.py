"""Threads that go on while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def running(targets: Iterable[Callable[[], None]], stop: threading.Event) -> Iterator[None]:
    """Run each in a thread of its own until the context ends, which sets ``stop`` and waits."""
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
