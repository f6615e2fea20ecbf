"""Resident workers of one kind, each forked when something is for it."""

from __future__ import annotations

from collections.abc import Callable

from processor.resident.handle import ResidentWorker


class WorkerPool:
    """As many places as ``count`` says when the first is asked for. Its users hold a lock.

    ``spawn`` forks a worker, or gives None where nothing can.
    """

    def __init__(
        self, spawn: Callable[[], ResidentWorker | None], count: Callable[[], int]
    ) -> None:
        self._spawn = spawn
        self._count = count
        self._places: list[ResidentWorker | None] = []

    def __len__(self) -> int:
        """How many places there are."""
        if not self._places:
            # Asked once: while the JVM starts anew only that knows.
            self._places += [None] * self._count()
        return len(self._places)

    def at(self, number: int) -> ResidentWorker | None:
        """The worker at place ``number``, which goes round; None: there can be none."""
        place = number % len(self)
        worker = self._places[place]
        if worker is None or worker.ended:
            worker = self._places[place] = self._spawn()
        return worker

    def workers(self) -> list[ResidentWorker]:
        """Those that there are."""
        return [worker for worker in self._places if worker is not None]

    def given_up(self) -> list[ResidentWorker]:
        """The same; who is asked for from now on is another one."""
        workers, self._places = self.workers(), []
        return workers
