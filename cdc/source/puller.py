"""The puller of one node: connect, read, walk, commit; again after every transient error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import TidegateError, TransientError
from cdc.base.ts import Ts, from_micros
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import ErrorInfo, UpstreamInfo, UpstreamStatus
from cdc.source.cold import ColdEvents
from cdc.source.commit_pace import CommitPace
from cdc.source.connection import open_connection, query_error, rows
from cdc.source.errors import ServerIdTaken, UpstreamGone
from cdc.source.history import check_history
from cdc.source.intake import Intake
from cdc.source.position import UpstreamPosition
from cdc.source.read_ahead import ReadAhead
from cdc.source.settings import SourceSettings
from cdc.source.stream import BinlogStream, open_stream
from cdc.source.walker import Walker

_TICK_S = 0.2


class Puller:
    """Pulls one upstream node into its log until told to stop.

    ``on_status`` is called at each change of state and at least once a second. One thread runs
    it; :meth:`ts_of` may be called from others.
    """

    def __init__(
        self,
        info: UpstreamInfo,
        writer: LogWriter,
        settings: SourceSettings,
        clock: Clock,
        on_status: Callable[[UpstreamStatus], None],
    ) -> None:
        self._info = info
        self._writer = writer
        self._settings = settings
        self._clock = clock
        self._on_status = on_status
        self._id_attempt = 0
        self._offset_us = 0
        self._pace = CommitPace(settings.group_commit_ms / 1000, settings.group_commit_bytes)
        self._last_status = 0.0
        self._last_budget = -1.0
        self._budget_ok = True
        self._passed = threading.Condition()
        self._intake: Intake | None = None

    def run(self, stop: threading.Event) -> None:
        """Pull until ``stop``; raises the error if it is not a transient one."""
        s = self._settings
        backoff = Backoff(s.backoff_first_s, 2.0, s.backoff_max_s)
        while not stop.is_set():
            before = self._writer.state.commits
            try:
                self._pull(stop)
                continue
            except TransientError as error:
                if isinstance(error, ServerIdTaken):
                    self._id_attempt += 1
                self._status("retrying", error)
            except TidegateError as error:
                self._status("failed", error)
                raise
            if self._writer.state.commits > before + 1:
                backoff = backoff.succeeded()
            backoff = backoff.failed()
            stop.wait(backoff.delay_s())
        self._status("stopped")

    # --- one connection ------------------------------------------------------------------------

    def _pull(self, stop: threading.Event) -> None:
        position = UpstreamPosition.from_dict(self._writer.state.position)
        self._status("connecting")
        stream = self._connect(position)
        try:
            walker = Walker(self._writer, self._info.server_kind, position, self._due)
            walker.carry_out = self._commit
            cold = ColdEvents(walker)
            intake = Intake(walker, cold, self._info, self._settings)
            self._intake = intake
            self._status("running")
            with ReadAhead(stream, self._settings.blocks, self._settings.block_bytes) as ahead:
                self._read(ahead, intake, stop)
        finally:
            self._intake = None
            stream.close()
            # A transaction that was only begun comes again as a whole from the next connection.
            self._writer.discard()

    def _connect(self, position: UpstreamPosition) -> BinlogStream:
        check_history(self._info, position, self._settings)
        connection = open_connection(self._info, self._settings)
        try:
            before = self._clock.now_ms()
            now = rows(connection, "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) AS t")
            self._offset_us = int(now[0]["t"]) - (before + self._clock.now_ms()) * 500
            return open_stream(
                connection, self._info, position, self._settings, attempt=self._id_attempt
            )
        except BaseException as error:
            connection._force_close()
            if isinstance(error, TidegateError):
                raise
            raise _translated(error, self._info) from None

    def _read(self, stream: ReadAhead, intake: Intake, stop: threading.Event) -> None:
        heard = self._clock.monotonic()
        while not stop.is_set():
            if not self._within_budget(stop):
                heard = self._clock.monotonic()
                continue
            if stream.readable(self._patience(intake)):
                block, n = stream.take()
                heard = self._clock.monotonic()
                intake.take(block, n)
            elif self._clock.monotonic() - heard > self._settings.silence_s:
                raise UpstreamGone(
                    f"not even a heartbeat for {self._settings.silence_s:g} s",
                    object=f"upstream {self._info.name}",
                    position=intake.walker.here(),
                )
            self._settle(stream, intake)
            if self._clock.monotonic() - self._last_status > 1:
                self._status("running")

    def _commit(self, resolved: Ts, position: dict[str, Any], behind: bool) -> None:
        self._writer.wait()
        self._pace.began(self._clock.monotonic())
        if behind:
            self._writer.commit_behind(resolved, position, self._committed)
            return
        try:
            self._writer.commit(resolved, position)
        finally:
            self._committed()

    def _committed(self) -> None:
        self._pace.ended(self._clock.monotonic())
        with self._passed:
            self._passed.notify_all()

    def _due(self) -> bool:
        intake = self._intake
        if intake is None:
            return False
        return self._pace.due(self._clock.monotonic(), intake.walker.uncommitted)

    def _patience(self, intake: Intake) -> float:
        """How long to wait for more before what has arrived is committed."""
        walker = intake.walker
        if walker.in_group or not walker.clean or not walker.uncommitted:
            # Nothing can be committed before more has come.
            return _TICK_S
        return min(_TICK_S, self._pace.rest_s(self._clock.monotonic(), walker.uncommitted))

    def _settle(self, stream: ReadAhead, intake: Intake) -> None:
        # At the end of what has arrived: commit, and let a heartbeat resolve up to now.
        walker, cold = intake.walker, intake.cold
        if walker.in_group or not walker.clean:
            return
        beat = cold.heartbeats > 0
        if beat and not stream.readable():
            cold.heartbeats = 0
            now = from_micros(self._clock.now_ms() * 1000 + self._offset_us)
            walker.resolve(now)
        if not walker.uncommitted and not beat:
            return
        rested = self._pace.rest_s(self._clock.monotonic(), walker.uncommitted) == 0
        due = self._due()
        if due or rested:
            more = stream.readable()
            if due or not more:
                walker.commit(behind=more)

    def _within_budget(self, stop: threading.Event) -> bool:
        now = self._clock.monotonic()
        if now - self._last_budget < 1:
            if not self._budget_ok:
                stop.wait(_TICK_S)
            return self._budget_ok
        self._last_budget = now
        error = self._writer.over_budget()
        self._budget_ok = error is None
        if error is not None:
            self._status("paused", error)
        return self._budget_ok

    # --- outside -------------------------------------------------------------------------------

    def ts_of(self, position: UpstreamPosition, timeout_s: float = 30.0) -> Ts:
        """The resolved ts once the log has passed an upstream position; waits for it.

        Every transaction up to ``position`` has a ts at or below the result. Raises UpstreamGone if
        the log does not get there in time.
        """
        end = self._clock.monotonic() + timeout_s
        with self._passed:
            while not self._has_passed(position):
                left = end - self._clock.monotonic()
                if left <= 0:
                    raise UpstreamGone(
                        "the log has not reached the position in time",
                        object=f"upstream {self._info.name}",
                        position=str(position),
                    )
                self._passed.wait(min(left, _TICK_S))
            return self._writer.state.resolved_ts

    def _has_passed(self, position: UpstreamPosition) -> bool:
        return UpstreamPosition.from_dict(self._writer.state.position).covers(
            position, self._info.server_kind
        )

    def _status(self, state: str, error: TidegateError | None = None) -> None:
        self._last_status = self._clock.monotonic()
        log = self._writer.state
        info: dict[str, Any] | None = error.to_dict() if error is not None else None
        self._on_status(
            UpstreamStatus(
                state=state,
                resolved_ts=log.resolved_ts,
                position=log.position,
                log_bytes=log.bytes(),
                error=ErrorInfo(**info, time_ms=self._clock.now_ms()) if info else None,
            )
        )


def _translated(error: BaseException, info: UpstreamInfo) -> BaseException:
    return query_error(error, f"upstream {info.name}") if hasattr(error, "args") else error
