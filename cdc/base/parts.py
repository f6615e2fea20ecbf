"""The threads that a process is made of: each goes on until it is stopped, and says how it fares.

A thread that ends by an error that nobody expected leaves a process that looks alive and does
nothing. So each is a :class:`Part`: its work is cut into turns, whatever a turn raises is logged
and shown, and the next turn follows after a pause.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from cdc.base.backoff import Backoff
from cdc.base.errors import TidegateError
from cdc.base.log_fields import about

_log = logging.getLogger("parts")
_FIRST_S, _MAX_S = 0.1, 10.0

Turn = Callable[[], bool]
"""One turn of a part's work; False if it has come to its end."""


class Part:
    """One thread that repeats ``turn`` until that returns False, or ``stopping`` is set.

    ``fields``: what all that it logs is about, see :mod:`cdc.base.log_fields`.
    """

    def __init__(
        self, name: str, turn: Turn, stopping: threading.Event, fields: Mapping[str, str]
    ) -> None:
        self.name = name
        self._fields = fields
        self._turn = turn
        self._stopping = stopping
        self._backoff = Backoff(_FIRST_S, max_s=_MAX_S)
        self._error = ""
        self._begun = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    @property
    def over(self) -> bool:
        """Whether it has gone on, and does no more; not while it is being started."""
        return self._begun and not self._thread.is_alive()

    @property
    def trouble(self) -> str:
        """What its last turn failed with, or that it has ended although it should not; else ""."""
        if self.over and not self._ended:
            return self._error or "has ended"
        return self._error

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()
        # Not before: a thread that is being started is not alive yet, and has not ended either.
        self._begun = True

    def join(self, timeout_s: float) -> None:
        """Wait for its end, unless that is asked by itself."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def well(self) -> None:
        """Its work is done for now; a turn that then waits for long says so itself."""
        self._error = ""
        self._backoff = self._backoff.succeeded()

    def failed(self, error: Exception) -> None:
        """Something has failed that the turn deals with itself; shown until the work is done."""
        self._error = (str(error) or type(error).__name__).splitlines()[0][:300]

    def _run(self) -> None:
        with about(**self._fields):
            self._repeat()

    def _repeat(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._turn():
                    break
                self.well()
            except Exception as e:
                if isinstance(e, TidegateError):
                    _log.warning("%s: %s", self.name, e)
                else:
                    _log.exception("%s failed", self.name)
                self.failed(e)
                self._backoff = self._backoff.failed()
                self._stopping.wait(self._backoff.delay_s())
        self._ended = True


class Parts:
    """The parts of one process, by name: a new one of a name takes the place of the old one."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._parts: dict[str, Part] = {}

    def make(self, name: str, turn: Turn, stopping: threading.Event, **fields: str) -> Part:
        """A part, not started yet; ``fields`` are what it is about."""
        part = Part(name, turn, stopping, fields)
        with self._guard:
            self._parts[name] = part
        return part

    def forget(self, part: Part) -> None:
        """It was stopped for good."""
        with self._guard:
            if self._parts.get(part.name) is part:
                del self._parts[part.name]

    def states(self) -> dict[str, str]:
        """Each part's trouble, "" if it has none."""
        with self._guard:
            return {name: part.trouble for name, part in sorted(self._parts.items())}

    def troubles(self) -> dict[str, str]:
        """Those that have one."""
        return {name: trouble for name, trouble in self.states().items() if trouble}
