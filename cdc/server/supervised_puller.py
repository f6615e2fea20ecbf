"""Writes the log of one upstream, or node, on a thread of its own, which outlives what may heal."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.parts import Parts
from cdc.coord.contract import StoreFailed
from cdc.coord.messages import ErrorInfo, UpstreamInfo, UpstreamStatus
from cdc.server.log_source import OnStatus
from cdc.server.upstream_errors import PullerFailed

_log = logging.getLogger("upstream")

WriteLog = Callable[[UpstreamInfo, OnStatus, threading.Event], None]
"""Writes the log until stopped; raises what ends it."""

Tell = Callable[[str, UpstreamStatus], None]
"""Writes what the puller of a name has said; raises StoreFailed."""

_ON_THE_WAY = ("starting", "connecting")


class SupervisedPuller:
    """What writes one log, started again after whatever may heal, and with another access."""

    def __init__(
        self, info: UpstreamInfo, write: WriteLog, tell: Tell, clock: Clock, parts: Parts
    ) -> None:
        self.stop = threading.Event()
        what = "merger" if info.nodes else "puller"
        self.part = parts.make(f"{what} {info.name}", self._pull, self.stop, upstream=info.name)
        self._write = write
        self._tell = tell
        self._clock = clock
        self._guard = threading.Lock()
        self._info = info
        # Ends what runs now; it runs again unless it is to stop.
        self._again = threading.Event()
        self._ended = self._failed = False
        self._last = UpstreamStatus()
        self._backoff = Backoff(0.2)

    @property
    def last(self) -> UpstreamStatus:
        """What it said last."""
        return self._last

    @property
    def failed(self) -> bool:
        """Whether it has said that an error ends it, which it may be about to do."""
        return self._failed

    @property
    def info(self) -> UpstreamInfo:
        """What it reads, and how that is reached."""
        return self._info

    def halt(self) -> None:
        """Have it end; returns at once."""
        with self._guard:
            self.stop.set()
            self._again.set()

    def renew(self, info: UpstreamInfo) -> bool:
        """Have it begin anew, with another access; False if it has come to its end."""
        with self._guard:
            if not self._ended:
                self._info = info
                self._again.set()
            return not self._ended

    def _pull(self) -> bool:
        """Pull until that ends; False if nothing but an operator can mend its error."""
        with self._guard:
            info, again = self._info, threading.Event()
            self._again = again
            self._failed = False
            if self.stop.is_set():
                return False
        began = self._clock.monotonic()
        try:
            self._write(info, self.say, again)
            return not self._at_end(again)
        except TidegateError as e:
            error = e
        except Exception as e:
            _log.exception("upstream %s: puller failed", info.name)
            error = PullerFailed(type(e).__name__, object=f"upstream {info.name}")
        _log.error("upstream %s: %s", info.name, error)
        final = error.kind is not ErrorKind.TRANSIENT
        said = ErrorInfo.of(error, self._clock.now_ms())
        state = "failed" if final else "retrying"
        self._failed = final
        self.tell(self._last.model_copy(update={"state": state, "error": said}))
        if final:
            return not self._at_end(again)
        if self._clock.monotonic() - began > 60:
            self._backoff = self._backoff.succeeded()
        self._backoff = self._backoff.failed()
        self.part.well()
        again.wait(self._backoff.delay_s())
        return True

    def _at_end(self, again: threading.Event) -> bool:
        """Whether what has run is not to run again; from then on it cannot be renewed."""
        with self._guard:
            self._ended = self.stop.is_set() or not again.is_set()
            return self._ended

    def say(self, status: UpstreamStatus) -> None:
        """Write a status; while the store cannot, pulling goes on, and the next one follows.

        Why the server was lost is shown until it is there again: an attempt takes many times as
        long as the pause in which it is known to be lost.
        """
        if status.state == "failed" and not self._info.nodes:
            # Of one with nodes a node has; of a server, its error comes next.
            self._failed = True
        if status.state in _ON_THE_WAY and status.error is None:
            status = status.model_copy(update={"error": self._last.error})
        try:
            self.tell(status)
        except StoreFailed as e:
            self.part.failed(e)
        else:
            self.part.well()

    def tell(self, status: UpstreamStatus) -> None:
        """Write a status to the metrics and the store; raises StoreFailed."""
        self._last = status
        self._tell(self._info.name, status)
