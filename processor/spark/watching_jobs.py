"""A job that does not come to its end: it takes too long, or there is nobody left to run it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdc.base.errors import TidegateError, TransientError
from processor.jobs import JobTimedOut

if TYPE_CHECKING:
    from pyspark import SparkContext

# A window's job is over long before the first look.
_LOOK_S = 2.0
_DOUBLED_AT_MOST = 4


class ExecutorsLost(TransientError):
    """No executor is left, and Spark's master gives no other: it may not know of us any more."""

    code = "TG:ErrExecutorsLost"


class ExecutorsDue:
    """When an application that has no executor is ended, for another.

    Behind ``timeout_s`` (0: never), and never before the first one has ever come. Twice as long
    each time that none came to the next application either: an executor may take longer to start
    than that, and to end its application then would leave none for ever.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lost: int | None = None

    @property
    def within_s(self) -> float:
        """So long one may be without any; 0 for ever."""
        return 0.0 if self._lost is None else self._timeout_s * 2**self._lost

    def came(self) -> None:
        """An application's executors have worked."""
        self._lost = 0

    def lost(self) -> None:
        """An application was ended, as none came."""
        self._lost = min((self._lost or 0) + 1, _DOUBLED_AT_MOST)


@contextmanager
def watched(
    context: SparkContext, of: str, description: str, timeout_s: float, executors_s: float
) -> Iterator[None]:
    """Cancel the jobs of this thread behind ``timeout_s``; Spark then kills their workers.

    So also once there was no executor for ``executors_s`` on end (0: that is not looked at). Raises
    JobTimedOut or ExecutorsLost; ``of`` is what the jobs are of, for the error.
    """
    group = f"tidegate-{uuid.uuid4()}"
    context.setJobGroup(group, description, interruptOnCancel=True)
    over = threading.Event()
    found: list[TidegateError] = []

    def look_on() -> None:
        began = seen = time.monotonic()
        while not over.wait(min(_LOOK_S, max(0.0, began + timeout_s - time.monotonic()))):
            now = time.monotonic()
            try:
                if not executors_s or executors(context):
                    seen = now
            except Exception:
                # Spark has ended, and with it the job.
                return
            if now - seen >= executors_s > 0:
                found.append(_lost(of, now - seen))
            elif now - began >= timeout_s:
                found.append(_late(of, description, timeout_s))
            if found:
                context.cancelJobGroup(group)
                return

    threading.Thread(target=look_on, name="job-watch", daemon=True).start()
    try:
        yield
    except Exception as error:
        if not found:
            raise
        raise found[0] from error
    finally:
        over.set()


def executors(context: SparkContext) -> int:
    """How many executors there are now; a driver that runs tasks itself has none."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def _late(of: str, description: str, timeout_s: float) -> JobTimedOut:
    return JobTimedOut(
        f"it did not end in {timeout_s:.0f} s: {description}",
        object=of,
        hint="look at Spark's workers and their hosts; delivery recovers by itself",
    )


def _lost(of: str, seconds: float) -> ExecutorsLost:
    return ExecutorsLost(
        f"Spark has had no executor for {seconds:.0f} s",
        object=of,
        hint="look at Spark's master and workers; the capture registers there anew",
    )
