"""The Spark context of a capture, and running one window's tasks on it."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc.base.clock import Clock, SystemClock
from processor.jobs import ALONE, Captures
from processor.settings import ProcessorSettings
from processor.shared_jobs import SharedJobs
from processor.spark.beside import StartBeside
from processor.spark.context import ContextStart, has_ended, open_context
from processor.spark.task import read, run, tend, warm
from processor.spark.watching_jobs import ExecutorsDue, ExecutorsLost, watched

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

    from cdc.changelog.remote.access import LogAccess
    from processor.chunk_reading import ChunkRead, ChunkTask
    from processor.task_messages import Ack, Descriptor

_log = logging.getLogger("processor")

_IN_CLEAR = (
    "what tasks need, passwords of sinks too, crosses the network in clear: set spark.authenticate"
    " and spark.network.crypto.enabled, see docs/spark.md"
)
_WARM = "tidegate: warm workers"
# An idle worker answers at once.
_TEND_S = 30.0
# A start that is under way is waited for so long at a stop.
_STOP_S = 4.0
# A JVM that does not start costs a second of processor each time.
_AGAIN_S = 10.0
# How long a number of cores holds.
_CORES_S = 2.0


class SparkRunner:
    """Owns the Spark context; starts it on first use. Spark writes below ``scratch``.

    ``access`` says how workers that do not see the logs read them, by a log's folder; ``begun`` is
    the start of the first context, if that is under way.
    """

    def __init__(
        self,
        settings: ProcessorSettings,
        scratch: Path,
        access: Callable[[Path], LogAccess] | None = None,
        begun: ContextStart | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._begun = begun
        self._access = access
        self._scratch = scratch
        self._context: SparkContext | None = None
        self._cores: tuple[SparkContext, float, int] | None = None
        self._warmed = False
        self._clock = clock or SystemClock()
        self._beside = StartBeside("spark-start", self._begin, _AGAIN_S, self._clock.monotonic)
        self._due = ExecutorsDue(0.0 if settings.local else settings.executors_timeout_s)
        self._starting = threading.Lock()
        self._shared = SharedJobs(self._one_by_one, lambda: self.parallelism)

    def start(self) -> None:
        """Start the context and warm one worker per core, so that no window pays for it."""
        begun, self._begun = self._begun, None
        opened = begun.result() if begun is not None else None
        self._context = opened or open_context(self._settings, self._scratch)
        if self._access is not None and not _encrypts(self._context.getConf()):
            _log.warning("%s", _IN_CLEAR)
        self._context.setLogLevel("WARN")
        # Every changefeed gets a pool of its own; Spark warns about pools without a file.
        levels = self._context._jvm.org.apache.logging.log4j
        levels.core.config.Configurator.setLevel(
            "org.apache.spark.scheduler.FairSchedulableBuilder", levels.Level.ERROR
        )
        try:
            with watched(self._context, "workers", _WARM, math.inf, self._due.within_s):
                self._warm(self._context)
        except ExecutorsLost:
            self._give_up(self._context)
            raise
        except Exception:
            # It would be taken for one that is warm by the next start, and is not.
            self._end(self._context)
            raise
        self._due.came()
        self._warmed = True

    def _warm(self, context: SparkContext) -> None:
        n = int(context.defaultParallelism)
        context.parallelize(range(n), n).mapPartitions(warm).collect()

    def begin(self) -> None:
        """Start the context beside all else, unless it runs, or was tried a moment ago."""
        if not self.up:
            self._beside.begin()

    def _begin(self) -> None:
        try:
            self._need()
        except Exception:
            _log.exception("Spark did not start with master %s", self._settings.spark_master)
            raise

    @property
    def up(self) -> bool:
        """Whether its JVM runs, and workers are warm."""
        context = self._context
        return self._warmed and context is not None and not _is_dead(context)

    @property
    def broken(self) -> bool:
        """Whether its JVM has ended, or did not start."""
        context = self._context
        return self._beside.failed if context is None else _is_dead(context)

    @property
    def captures(self) -> Captures:
        """As of a JobRunner: only one that borrows workers knows other captures."""
        return ALONE

    @property
    def parallelism(self) -> int:
        """Tasks that run at once."""
        if self._context is None and (cores := self._settings.local_cores) is not None:
            return cores
        context, known = self._need(), self._cores
        if known is None or known[0] is not context or known[1] < self._clock.monotonic():
            # Each window asks; only the JVM knows, and executors come and go.
            cores = int(context.defaultParallelism)
            known = self._cores = context, self._clock.monotonic() + _CORES_S, cores
        return known[2]

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float, shared: str
    ) -> list[Ack]:
        """One job, a task per descriptor; their acknowledgements in order.

        A single one may go with others of the same ``shared``, one after the other. Raises what
        Spark raises when a task or worker dies, and as :func:`watched`; errors of ours come as part
        of the acknowledgement.
        """
        if shared and len(descriptors) == 1:
            return [self._shared.run(descriptors[0], description, timeout_s, shared)]
        return self._run(descriptors, description, timeout_s, len(descriptors))

    def _one_by_one(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float
    ) -> list[Ack]:
        return self._run(descriptors, description, timeout_s, 1)

    def _run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float, tasks: int
    ) -> list[Ack]:
        context = self._need()
        context.setLocalProperty("spark.scheduler.pool", descriptors[0].plan.feed.name)
        of = f"changefeed {descriptors[0].plan.feed.name}"
        with self._watched(context, of, description, timeout_s):
            rdd = context.parallelize(self._reached(descriptors), tasks)
            return list(rdd.mapPartitions(run).collect())

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        """One job, a task per chunk; what each has read, in order. Raises as :meth:`run` does."""
        context = self._need()
        context.setLocalProperty("spark.scheduler.pool", tasks[0].info.name)
        with self._watched(context, f"upstream {tasks[0].info.name}", description, timeout_s):
            if self._access is not None:
                tasks = [replace(t, access=self._access(Path(t.path).parent)) for t in tasks]
            rdd = context.parallelize(list(tasks), len(tasks))
            return list(rdd.mapPartitions(read).collect())

    def _reached(self, descriptors: Sequence[Descriptor]) -> list[Descriptor]:
        """With what a worker needs that does not see the log."""
        access = self._access
        if access is None:
            return list(descriptors)
        plans = (replace(d.plan, access=access(Path(d.plan.log_folder))) for d in descriptors)
        return [replace(d, plan=plan) for d, plan in zip(descriptors, plans, strict=True)]

    def tend(self, feeds: Collection[str]) -> None:
        """A job of next to nothing on each worker: only its use of one keeps Spark from ending all.

        ``feeds`` are the changefeeds that run. Nothing happens while there is no JVM. Raises as
        :meth:`run` does.
        """
        self._shared.keep(feeds)
        context = self._context
        if context is None or _is_dead(context):
            return
        n = int(context.defaultParallelism)
        # A worker that hangs must not keep its core from windows.
        with self._watched(context, "workers", "tidegate: keep workers", _TEND_S):
            context.parallelize([frozenset(feeds)] * n, n).mapPartitions(tend).collect()

    def stop(self) -> None:
        """Stop Spark and its workers, also where they are just being started."""
        self._beside.join(_STOP_S)
        if self._context is not None:
            self._context.stop()
            self._context = None

    @contextmanager
    def _watched(
        self, context: SparkContext, of: str, description: str, timeout_s: float
    ) -> Iterator[None]:
        """As :func:`watched`; what has no executors any more is not used again."""
        try:
            with watched(context, of, description, timeout_s, self._due.within_s):
                yield
        except ExecutorsLost:
            with self._starting:
                self._give_up(context)
            raise

    def _give_up(self, context: SparkContext) -> None:
        """The master has forgotten an application, whatever it was told: end it, for another."""
        if self._context is None or self._context is not context:
            # Another thread has seen to it before.
            return
        self._due.lost()
        _log.warning("Spark has no executors any more: its application is ended")
        self._end(context)

    def _end(self, context: SparkContext) -> None:
        self._context, self._warmed = None, False
        context.stop()

    def _need(self) -> SparkContext:
        with self._starting:
            if self._context is not None and _is_dead(self._context):
                self._context, self._warmed = None, False
            if self._context is None:
                self.start()
            assert self._context is not None
            return self._context


def _encrypts(conf: SparkConf) -> bool:
    """Whether Spark's own connections are encrypted."""
    ways = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    return any(conf.get(way, "false") == "true" for way in ways)


def end_jvm() -> None:
    """End the JVM that a stopped context leaves behind, and wait for its end."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)


def _is_dead(context: Any) -> bool:
    """Whether the JVM behind a context has ended, killed or out of memory."""
    return has_ended(context._gateway)
