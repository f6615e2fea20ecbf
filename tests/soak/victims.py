"""What is killed, when, and how it comes back: chosen by one seeded generator."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

from tests.e2e.capture_process import CaptureProcess, until
from tests.servers import Broker, Database

WORKER, CAPTURE = "Spark Python worker", "capture"
BROKER, TARGET = "broker", "target server"
_WEIGHTS = (5, 3, 2)
# One kill in so many does not wait until delivery goes on: it hits the recovery of the last one.
_HASTY = 4
_LONGEST_DELAY_S = 2.5
# A stuck changefeed must fail the run, with time for the slowest recovery that is still right.
_STUCK_S = 180.0


@dataclass
class Tally:
    """Kills of one kind: how many, and the seconds until rows written after them came."""

    kills: int = 0
    recoveries: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        """One line of the table."""
        times = self.recoveries
        shown = (
            f"{statistics.median(times):8.1f} {max(times):8.1f}" if times else f"{'-':>8} {'-':>8}"
        )
        return f"{name:20} {self.kills:6} {shown}"


class Killer:
    """Kills by the seed's choice: workers, the capture, and the ``sink`` behind them.

    ``sink_name`` is BROKER or TARGET. ``newest`` is the Unix time at which the newest row was
    written that a consumer has seen.
    """

    def __init__(
        self,
        capture: CaptureProcess,
        sink_name: str,
        sink: Broker | Database,
        newest: Callable[[], float],
        seed: int,
    ) -> None:
        self.tallies = {name: Tally() for name in (WORKER, CAPTURE, sink_name)}
        self._capture = capture
        self._sink = sink
        self._newest = newest
        self._random = random.Random(seed)
        self._returning: threading.Thread | None = None
        self._failed: list[BaseException] = []

    @property
    def kills(self) -> int:
        """All kills so far."""
        return sum(t.kills for t in self.tallies.values())

    def strike(self) -> str:
        """Kill one process at a random moment; what it was."""
        chosen = self._random
        kind = chosen.choices(list(self.tallies), _WEIGHTS)[0]
        hasty = chosen.randrange(_HASTY) == 0
        delay, pick = chosen.uniform(0.0, _LONGEST_DELAY_S), chosen.random()
        if not hasty:
            self.await_delivery()
        time.sleep(delay)
        if kind == WORKER:
            worker = self._worker(pick)
            if worker is None:
                return ""
            worker.kill()
        else:
            self._join()
            victim = self._capture if kind == CAPTURE else self._sink
            victim.kill()
            again = self._start_capture if kind == CAPTURE else self._sink.start
            self._returning = threading.Thread(target=self._guarded, args=(again,), daemon=True)
            self._returning.start()
        tally = self.tallies[kind]
        tally.kills += 1
        if not hasty:
            began = time.monotonic()
            self.await_delivery()
            tally.recoveries.append(time.monotonic() - began)
        return kind

    def await_delivery(self) -> None:
        """Wait until the consumer sees a row written after this call; raise if it never does."""
        self._join()
        now = time.time()
        until(lambda: self._newest() > now, "a row written after the kill", _STUCK_S)

    def _start_capture(self) -> None:
        self._capture.start(ready=False)

    def _worker(self, pick: float) -> psutil.Process | None:
        """A living worker; None while there is none (the last kill was the capture's)."""
        workers = self._capture.workers()
        return workers[int(pick * len(workers))] if workers else None

    def _join(self) -> None:
        if self._returning is not None:
            self._returning.join()
        if self._failed:
            raise self._failed[0]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._failed.append(error)
