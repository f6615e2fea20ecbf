"""Resident workers of one kind, each forked when something is for it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from processor.resident.handle import ResidentWorker
from processor.resident.spawner import Spawner

_log = logging.getLogger("processor")


class WorkerPool:
    """As many places as ``count`` says when the first is asked for. Its users hold a lock."""

    def __init__(self, spawner: Spawner, count: Callable[[], int]) -> None:
        self._spawner: Spawner | None = spawner
        self._count = count
        self._places: list[ResidentWorker | None] = []

    def __len__(self) -> int:
        """How many places there are."""
        if not self._places:
            # Asked once: while the JVM starts anew only that knows.
            self._places += [None] * self._count()
        return len(self._places)

    def at(self, number: int) -> ResidentWorker | None:
        """The worker at place ``number``, which goes round; None: nothing forks any."""
        if self._spawner is None:
            return None
        place = number % len(self)
        worker = self._places[place]
        if worker is None or worker.ended:
            worker = self._places[place] = self._spawned(self._spawner)
        return worker

    def workers(self) -> list[ResidentWorker]:
        """Those that there are."""
        return [worker for worker in self._places if worker is not None]

    def given_up(self) -> list[ResidentWorker]:
        """The same; who is asked for from now on is another one."""
        workers, self._places = self.workers(), []
        return workers

    def close(self) -> list[ResidentWorker]:
        """The same, and none comes any more."""
        self._spawner = None
        return self.given_up()

    def _spawned(self, spawner: Spawner) -> ResidentWorker | None:
        try:
            return ResidentWorker(spawner.spawn())
        except OSError as e:
            _log.warning("all goes to Spark, as nothing forks workers: %s", e)
            self._spawner = None
            return None
