"""Verifications that run in the background of a capture, asked about by their id."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from cdc.base.clock import Clock
from cdc.base.errors import InvalidError, TidegateError
from cdc.verify.repair import RowsToRepair
from cdc.verify.report import ComparisonVerdict, Stopped
from cdc.verify.running import Run, VerifyFailed

_log = logging.getLogger("verify")
_KEPT = 16


class JobState(StrEnum):
    """Where a verification is. What it says of the tables is theirs."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


class VerificationNotFound(InvalidError):
    """There is no verification of this id; a capture keeps the last few only."""

    code = "TG:ErrVerificationNotFound"


class VerificationRuns(InvalidError):
    """The changefeed is being verified."""

    code = "TG:ErrVerificationRuns"


class NothingToRepair(InvalidError):
    """A verification has no rows that can be brought again, or they were ordered already."""

    code = "TG:ErrVerifyNothingToRepair"


class Job:
    """One verification. ``work`` compares; ``close`` gives back what it needed."""

    def __init__(
        self,
        feed: str,
        run: Run,
        work: Callable[[Run], None],
        close: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.feed = feed
        self.state = JobState.RUNNING
        self.error: TidegateError | None = None
        self._run = run
        self._work = work
        self._close = close
        self._clock = clock
        self._began_s = clock.monotonic()
        self._ended_s: float | None = None
        self._guard = threading.Lock()
        self._repaired = False
        self._thread = threading.Thread(target=self._main, name=f"verify-{feed}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Tell it to stop; it does within a second or so."""
        self._run.interrupt()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end."""
        self._thread.join(timeout_s)

    def take_repairs(self) -> list[RowsToRepair]:
        """What would bring rows again that differ, for each table, once. Raises NothingToRepair."""
        with self._guard:
            done, self._repaired = self._repaired, self.state is not JobState.RUNNING
        found = [r.repair for r in list(self._run.results) if r.repair is not None]
        why = ""
        if self.state is JobState.RUNNING:
            why = "it has not ended"
        elif done:
            why = "its rows have been ordered"
        elif not found:
            why = "no row was found to differ that its key tells, in a table of a database"
        if why:
            raise NothingToRepair(
                why,
                object=f"verification {self.id} of changefeed {self.feed}",
                hint="compare again, when orders of before are delivered",
            )
        return found

    def view(self) -> dict[str, Any]:
        """All that is known now, as JSON."""
        run, error = self._run, self.error
        ended_s = self._ended_s if self._ended_s is not None else self._clock.monotonic()
        tables = [r.to_dict() for r in list(run.results)]
        finished = self.state is JobState.FINISHED
        return {
            "id": self.id,
            "changefeed_id": self.feed,
            "state": str(self.state),
            "equal": finished and all(t["verdict"] == ComparisonVerdict.EQUAL for t in tables),
            "exact": finished and all(t["exact"] for t in tables),
            "seconds": round(ended_s - self._began_s, 3),
            "messages": run.fold.messages if run.fold is not None else 0,
            "tables": tables,
            "error": error.to_dict() if error is not None else None,
        }

    def _main(self) -> None:
        state = JobState.FINISHED
        try:
            self._work(self._run)
        except Stopped:
            state = JobState.STOPPED
        except TidegateError as error:
            state = JobState.FAILED
            self.error = None if self._run.stop.is_set() else error
        except Exception as error:
            _log.exception("changefeed %s: verification failed", self.feed)
            state = JobState.FAILED
            self.error = VerifyFailed(type(error).__name__, object=f"changefeed {self.feed}")
        finally:
            self._close()
            self._ended_s = self._clock.monotonic()
            if self._run.stop.is_set():
                state = JobState.STOPPED
            self.state = state


class Jobs:
    """The last verifications of a capture; at most one runs for each changefeed."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, feed: str, make: Callable[[], Job]) -> Job:
        """Start a verification. Raises VerificationRuns."""
        with self._guard:
            for job in self._jobs.values():
                if job.feed == feed and job.state is JobState.RUNNING:
                    raise VerificationRuns(
                        f"verification {job.id} runs",
                        object=f"changefeed {feed}",
                        hint="wait for its end, or stop it",
                    )
            job = make()
            self._jobs[job.id] = job
            ended = [j.id for j in self._jobs.values() if j.state is not JobState.RUNNING]
            for old in ended[: max(0, len(self._jobs) - _KEPT)]:
                del self._jobs[old]
            job.start()
            return job

    def get(self, feed: str, id: str) -> Job:
        """One verification. Raises VerificationNotFound."""
        job = self._jobs.get(id)
        if job is None or job.feed != feed:
            raise VerificationNotFound(
                "there is no such verification",
                object=f"verification {id} of changefeed {feed}",
                hint="start one: cdc cli changefeed verify",
            )
        return job

    def of(self, feed: str) -> list[Job]:
        """Those of a changefeed that are known, newest first."""
        return [job for job in reversed(list(self._jobs.values())) if job.feed == feed]

    def stop(self) -> None:
        """Tell all to stop."""
        for job in list(self._jobs.values()):
            job.stop()
