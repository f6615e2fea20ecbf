"""Carrying out a group commit behind its caller, who goes on appending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

# Data, index and tables of one commit are made durable side by side; shared by all logs.
_SYNCS = ThreadPoolExecutor(4, "log-sync")


def side_by_side(syncs: Sequence[Callable[[], None]]) -> None:
    """Run all to their end; raises the first error."""
    if not syncs:
        return
    others = [_SYNCS.submit(sync) for sync in syncs[1:]]
    try:
        syncs[0]()
    finally:
        wait(others)
    for other in others:
        other.result()


class Behind:
    """A thread that carries out one job at a time; used by one caller."""

    def __init__(self, name: str = "log-commit") -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None
        self._job: Future[None] | None = None

    def begin(self, job: Callable[[], object], done: Callable[[], None] = lambda: None) -> None:
        """Start ``job`` behind the one before; ``done`` is called there at its end or failure."""
        self.wait()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, self._name)

        def run() -> None:
            try:
                job()
            finally:
                done()

        self._job = self._pool.submit(run)

    @property
    def busy(self) -> bool:
        """Whether a job runs."""
        return self._job is not None and not self._job.done()

    def wait(self) -> None:
        """Wait for the end of the job, if there is one; raises its error, once."""
        job, self._job = self._job, None
        if job is not None:
            job.result()

    def give_up(self) -> None:
        """Wait for the end of the job, whatever it was."""
        job, self._job = self._job, None
        if job is not None:
            wait([job])

    def close(self) -> None:
        """Wait for the job, and end the thread."""
        self.give_up()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
