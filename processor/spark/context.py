"""Opening Spark's context: its configuration, and how it starts beside what else is loaded.

A JVM and its context take some three seconds, mostly waiting; loading the rest of the process takes
about as long, mostly computing. So one begins before the other, and this loads nothing of it.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc.base import egress
from processor.settings import ProcessorSettings
from processor.spark import class_archive, forked_daemon
from processor.spark.scratch import Folders, prepare

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_log = logging.getLogger("processor")

# What the product needs of Spark. A delivering task has one attempt and no speculative copy:
# either would deliver a window twice behind the ledger's back (design, section 4.5).
_REQUIRED = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.excludeOnFailure.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "processor.spark.daemon",
    # Spark's pages have no login: whoever sees them must not be able to end windows.
    "spark.ui.killEnabled": "false",
}
# Rows never come to the JVM. Without -Xms it takes a 64th of the machine's memory, bit by bit.
JVM = "-Xms96m -XX:+UseSerialGC -Xss512k -XX:TieredStopAtLevel=1"
_DEFAULTS = {
    "spark.scheduler.mode": "FAIR",
    # Measured: 34 ms instead of 75 ms for an empty job; TCP waits for delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "1000",
    "spark.driver.memory": "512m",
    "spark.executor.heartbeatInterval": "20s",
    # A task may ask an executor for what belongs to it (its code) that was lost a moment ago: Spark
    # would wait for one that is frozen four times two minutes before it asks the driver.
    "spark.shuffle.io.connectionTimeout": "20s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    "spark.cleaner.referenceTracking": "true",
}
# Nobody else must reach the driver of a local master; the executors of a cluster must.
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def configuration(settings: ProcessorSettings, folders: Folders | None = None) -> dict[str, str]:
    """Spark's configuration: our defaults, the user's over them, and what must be so over all.

    ``folders`` are the defaults of :func:`processor.spark.scratch.prepare`.
    """
    local = _LOCAL if settings.local else {}
    options = [JVM, class_archive.options()]
    if folders is not None:
        # A JVM that is killed leaves the libraries that it has unpacked: they go with the folder.
        options.append(shlex.quote(f"-Djava.io.tmpdir={folders.temporary}"))
    jvm = {"spark.driver.extraJavaOptions": " ".join(filter(None, options))}
    conf = folders.conf if folders is not None else {}
    return {**_DEFAULTS, **jvm, **local, **conf, **settings.spark_conf, **_REQUIRED}


def open_context(settings: ProcessorSettings, scratch: Path) -> SparkContext:
    """A new context, or the one that this process has. Raises what Spark raises."""
    from pyspark import SparkContext

    if SparkContext._gateway is not None and has_ended(SparkContext._gateway):
        # pyspark keeps one JVM for the process and would ask the dead one, whenever it has died.
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    return SparkContext.getOrCreate(_conf(settings, scratch))


def has_ended(gateway: Any) -> bool:
    """Whether the JVM behind a gateway has ended, killed or out of memory."""
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def may_be_forked(settings: ProcessorSettings) -> bool:
    """Whether Spark's Python is what this process runs, on its host: its daemon may be a fork."""
    return settings.local and os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable


def _conf(settings: ProcessorSettings, scratch: Path) -> SparkConf:
    from pyspark import SparkConf

    # Workers must run the interpreter that has our packages, and their compiled kernels.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.local:
        # Spark's UI asks this variable only where to listen.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=True).setMaster(settings.spark_master)
    conf.setAppName("tidegate")
    for key, value in configuration(settings, prepare(scratch, settings.spark_master)).items():
        conf.set(key, value)
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", egress.VARIABLE):
        if name in os.environ:
            conf.setExecutorEnv(name, os.environ[name])
    if may_be_forked(settings):
        conf.setExecutorEnv(forked_daemon.VARIABLE, str(forked_daemon.address(scratch)))
    return conf


class ContextStart:
    """A context that is being opened, by a thread of its own, from the moment that this is made."""

    def __init__(self, settings: ProcessorSettings, scratch: Path) -> None:
        self._settings, self._scratch = settings, scratch
        self._context: SparkContext | None = None
        self._thread = threading.Thread(target=self._open, name="spark-context", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        try:
            self._context = open_context(self._settings, self._scratch)
        except Exception as error:
            # Whoever needs it opens it, and meets the same.
            _log.info("Spark's context did not open: %s", error)

    def result(self) -> SparkContext | None:
        """The context once it is open, or None if that has failed."""
        self._thread.join()
        return self._context
