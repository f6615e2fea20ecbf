"""The puller of one node: connect, read, walk, commit; again after every transient error."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from cdc.base import measures
from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TidegateError, TransientError
from cdc.base.ts import Ts, from_micros, physical_ms, to_text
from cdc.changelog.origin import UNKNOWN, Origin
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import ErrorInfo, PreparedXa, UpstreamInfo, UpstreamStatus
from cdc.source import vouching
from cdc.source.asker import Asker
from cdc.source.cold import ColdEvents
from cdc.source.commit_pace import CommitPace
from cdc.source.connection import open_connection, query_error
from cdc.source.damage import Damage, seen
from cdc.source.errors import ServerIdTaken, StreamBroken, UpstreamGone, UpstreamReset
from cdc.source.history import HISTORY_HINT, check_history
from cdc.source.intake import Intake
from cdc.source.position import UpstreamPosition
from cdc.source.read_ahead import ReadAhead
from cdc.source.server_clock import ServerClock
from cdc.source.settings import SourceSettings
from cdc.source.stream import BinlogStream, open_stream
from cdc.source.vouching import Answer, HistoryVerdict, Vouching
from cdc.source.walker import Walker

_log = logging.getLogger("puller")
_TICK_S = 0.2
# How often the disk and its budget are looked at.
_BUDGET_S = 1.0


class Puller:
    """Pulls one upstream node into its log until told to stop.

    ``on_status`` is called at each change of state and at least once a second. ``begun`` is the
    log's origin. One thread runs it; :meth:`ts_of` may be called from others.
    """

    def __init__(
        self,
        info: UpstreamInfo,
        writer: LogWriter,
        settings: SourceSettings,
        clock: Clock,
        on_status: Callable[[UpstreamStatus], None],
        begun: Origin = UNKNOWN,
    ) -> None:
        self._info = info
        self._writer = writer
        self._settings = settings
        self._clock = clock
        self._on_status = on_status
        self._begun = begun
        self._id_attempt = 0
        self._damage = Damage()
        self._server_clock = ServerClock()
        self._warned_ahead = False
        self._vouching = Vouching()
        self._asked = self._answered = 0.0
        self._unanswered: TidegateError | None = None
        self._pace = CommitPace(settings.group_commit_ms / 1000, settings.group_commit_bytes)
        self._last_status = 0.0
        self._warned_prepared: set[str] = set()
        self._last_budget = -1.0
        self._budget_ok = True
        self._wanted = 0
        self._passed = threading.Condition()
        self._intake: Intake | None = None
        self._pulled = measures.PULLED_BYTES.labels(info.name)
        self._commits = measures.COMMIT_SECONDS.labels(info.name)

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
                if not self._pulled_again(error):
                    self._status("failed", error)
                    raise
            if self._writer.state.commits > before + 1:
                backoff = backoff.succeeded()
            backoff = backoff.failed()
            stop.wait(backoff.delay_s())
        self._status("stopped")

    def _pulled_again(self, error: TidegateError) -> bool:
        # Where the server's own file is damaged it is so each time; else it was the way.
        start = str(UpstreamPosition.from_dict(self._writer.state.position))
        damage = seen(self._damage, error, start)
        if damage is None or damage.times >= self._settings.damage_pulls:
            return False
        self._damage = damage
        _log.warning("upstream %s: pulled again: %s", self._info.name, error)
        broken = StreamBroken(
            f"{error.message}; pulled again",
            object=f"upstream {self._info.name}",
            position=damage.place,
        )
        self._status("retrying", broken)
        return True

    # --- one connection ------------------------------------------------------------------------

    def _pull(self, stop: threading.Event) -> None:
        if not self._has_room(stop):
            return
        position = UpstreamPosition.from_dict(self._writer.state.position)
        self._status("connecting")
        with closing(Asker(self._info, self._settings, self._clock)) as asker:
            stream = self._connect(position, asker)
            measures.CONNECTIONS.labels(self._info.name).inc()
            try:
                walker = Walker(
                    self._writer,
                    self._info.server_kind,
                    position,
                    self._due,
                    self._begun,
                )
                walker.carry_out = self._commit
                intake = Intake(walker, ColdEvents(walker), self._info, self._settings)
                self._intake = intake
                self._status("running")
                ahead = ReadAhead(stream, self._settings.blocks, self._settings.block_bytes)
                with closing(ahead):
                    self._read(ahead, intake, asker, stop)
            finally:
                self._intake = None
                stream.close()
                self._wanted = 0 if self._budget_ok else self._writer.open_bytes
                # A transaction that was only begun comes again as a whole from the next connection.
                self._writer.discard()

    def _connect(self, position: UpstreamPosition, asker: Asker) -> BinlogStream:
        # What counts resets is asked before the history is checked, so none falls between.
        self._vouching = replace(self._vouching, waiting=None)
        self._take(asker.ask(position, self._vouching), 0)
        check_history(self._info, position, self._settings)
        connection = open_connection(self._info, self._settings)
        try:
            return open_stream(
                connection, self._info, position, self._settings, attempt=self._id_attempt
            )
        except BaseException as error:
            connection._force_close()
            if isinstance(error, TidegateError):
                raise
            raise _translated(error, self._info) from None

    def _read(self, stream: ReadAhead, intake: Intake, asker: Asker, stop: threading.Event) -> None:
        heard = self._clock.monotonic()
        while not stop.is_set():
            if not self._within_budget(stop):
                heard = self._clock.monotonic()
                self._vouching = replace(self._vouching, waiting=None)
                if intake.walker.uncommitted and _at_boundary(intake.walker):
                    # Only what is committed can be delivered, and go.
                    intake.walker.commit()
                continue
            if gathering_s := self._gathering_s(intake):
                stop.wait(gathering_s)
            if stream.readable(self._patience(intake)):
                block, n = stream.take()
                self._pulled.inc(n)
                heard = self._clock.monotonic()
                intake.walker.bound(self._latest())
                intake.take(block, n)
            elif self._clock.monotonic() - heard > self._settings.silence_s:
                raise UpstreamGone(
                    f"not even a heartbeat for {self._settings.silence_s:g} s",
                    object=f"upstream {self._info.name}",
                    position=intake.walker.here(),
                )
            self._ask(asker, intake)
            self._settle(stream, intake)
            if self._clock.monotonic() - self._last_status > 1:
                self._status("running", self._silent())

    # --- where the server stands -----------------------------------------------------------------

    def _ask(self, asker: Asker, intake: Intake) -> None:
        answer = asker.taken()
        if isinstance(answer, Answer):
            self._take(answer, intake.cold.heartbeats)
        elif isinstance(answer, TidegateError):
            self._unanswered = answer
        elif answer is not None:
            raise answer
        now = self._clock.monotonic()
        if now - self._asked >= self._settings.standing_s and not asker.busy:
            self._asked = now
            asker.begin(intake.walker.boundary, self._vouching)

    def _take(self, answer: Answer, beats: int) -> None:
        now = self._clock.monotonic()
        self._answered, self._unanswered = now, None
        ours = self._clock.now_ms() * 1000
        self._server_clock = self._server_clock.heard(answer.standing.clock_us, answer.at_s, ours)
        self._vouching, verdict, why = vouching.take(self._vouching, self._info, answer, beats, now)
        if verdict in (HistoryVerdict.RESET, HistoryVerdict.OTHER_SERVER):
            raise UpstreamReset(
                why,
                object=f"upstream {self._info.name}",
                position=str(answer.here),
                hint=HISTORY_HINT,
            )

    def _latest(self) -> Ts:
        ours = self._clock.now_ms() * 1000
        return from_micros(self._server_clock.latest_us(self._clock.monotonic(), ours))

    def _ahead_ms(self) -> int:
        """How far an event's time was ahead of the latest that was taken for one."""
        intake = self._intake
        ahead = intake.walker.ahead if intake is not None else 0
        # One that was only bounded by a pinned transaction is not later than now.
        if ahead <= self._latest():
            return 0
        if not self._warned_ahead:
            self._warned_ahead = True
            _log.warning(
                "upstream %s: an event is dated %s, which is in the future; its ts is not",
                self._info.name,
                to_text(ahead),
            )
        return max(0, physical_ms(ahead) - physical_ms(self._latest()))

    def _silent(self) -> TidegateError | None:
        """Why the server has not said for long where it stands; the stream may go on."""
        late = self._clock.monotonic() - self._answered > self._settings.silence_s
        return self._unanswered if late else None

    def _resolve(self, intake: Intake) -> bool:
        """Let an answer of the server resolve whose end we have reached; whether one has."""
        walker = intake.walker
        if self._vouching.waiting is None:
            return False
        now = self._clock.monotonic()
        self._vouching, verdict = vouching.settle(
            self._vouching, walker.boundary, intake.cold.heartbeats, now
        )
        if verdict is HistoryVerdict.STALLED:
            raise UpstreamGone(
                "the stream has nothing more, but the server has",
                object=f"upstream {self._info.name}",
                position=walker.here(),
            )
        before = walker.resolved
        # A clock that jumped ahead is not believed here either.
        late = self._server_clock.now_us(now, self._clock.now_ms() * 1000)
        walker.resolve(from_micros(min(self._vouching.vouched_us, late)))
        return walker.resolved > before

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
        self._commits.observe(self._pace.ended(self._clock.monotonic()))
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
        if not _at_boundary(walker) or not walker.uncommitted:
            # Nothing can be committed before more has come.
            return _TICK_S
        return min(_TICK_S, self._pace.rest_s(self._clock.monotonic(), walker.uncommitted))

    def _gathering_s(self, intake: Intake) -> float:
        walker = intake.walker
        if not _at_boundary(walker):
            return 0.0
        return self._pace.gathering_s(self._clock.monotonic(), walker.uncommitted)

    def _settle(self, stream: ReadAhead, intake: Intake) -> None:
        # At the end of what has arrived: commit, and let the server's answer resolve up to it.
        walker = intake.walker
        if not _at_boundary(walker):
            return
        resolved = not stream.readable() and self._resolve(intake)
        if not walker.uncommitted and not resolved:
            return
        rested = self._pace.rest_s(self._clock.monotonic(), walker.uncommitted) == 0
        due = self._due()
        if due or rested:
            more = stream.readable()
            if due or not more:
                walker.commit(behind=more)

    def _within_budget(self, stop: threading.Event) -> bool:
        now = self._clock.monotonic()
        if now - self._last_budget < _BUDGET_S:
            if not self._budget_ok:
                stop.wait(_TICK_S)
            return self._budget_ok
        self._last_budget = now
        error = self._writer.over_budget()
        self._budget_ok = error is None
        if error is not None:
            self._refused(error)
        return self._budget_ok

    def _refused(self, error: TidegateError) -> None:
        if error.kind is ErrorKind.DEFINITE:
            raise error
        self._status("paused", error)

    def _has_room(self, stop: threading.Event) -> bool:
        """Wait until there is room for what a transaction had when its connection ended in a pause.

        Else it would be pulled up to the same place again and again.
        """
        while self._wanted and not stop.is_set():
            error = self._writer.over_budget(self._wanted)
            if error is None:
                self._wanted = 0
                break
            self._refused(error)
            stop.wait(_TICK_S)
        return not stop.is_set()

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
        self._on_status(
            UpstreamStatus(
                state=state,
                resolved_ts=log.resolved_ts,
                position=log.position,
                log_bytes=log.bytes(),
                clock_skew_ms=self._server_clock.skew_us // 1000,
                ahead_ms=self._ahead_ms(),
                error=ErrorInfo.of(error, self._clock.now_ms()) if error is not None else None,
                prepared=self._prepared_for_long(),
                first_ts=log.first_ts,
            )
        )

    def _prepared_for_long(self) -> list[PreparedXa]:
        before = self._clock.now_ms() - int(self._settings.prepared_shown_s * 1000)
        found = [p for p in self._writer.pinned() if p.since_ms <= before]
        for one in found:
            if one.xid not in self._warned_prepared:
                _log.warning(
                    "upstream %s: XA transaction %s is prepared for long: the log cannot shrink "
                    "behind it; XA COMMIT or XA ROLLBACK it",
                    self._info.name,
                    one.xid,
                )
        self._warned_prepared = {p.xid for p in found}
        return [PreparedXa(xid=p.xid, since_ms=p.since_ms, log_bytes=p.log_bytes) for p in found]


def _at_boundary(walker: Walker) -> bool:
    """Whether all that was appended is complete transactions, so that it may be committed."""
    return walker.clean and not walker.in_group


def _translated(error: BaseException, info: UpstreamInfo) -> BaseException:
    return query_error(error, f"upstream {info.name}") if hasattr(error, "args") else error
