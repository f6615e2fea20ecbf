"""A program whose Spark dies twice before it is there: while its context opens, and while it warms.

It ends with 0 once the third JVM runs. A process of its own, as pyspark keeps one JVM for each.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkContext

from processor.settings import ProcessorSettings
from processor.spark.context import ContextStart
from processor.spark.session import SparkRunner
from tests.changelog.logs import StillClock
from tests.waiting import until

_AGAIN_MS = 10_000
_SETTINGS = ProcessorSettings(spark_master="local[1]")


class DiesOnce(SparkRunner):
    """A runner whose first JVM that opens is killed before its workers are warm."""

    died = False

    def __init__(self, scratch: Path, begun: ContextStart) -> None:
        self.clock = StillClock()
        super().__init__(_SETTINGS, scratch, begun=begun, clock=self.clock)

    def _warm(self, context: Any) -> None:
        if not self.died:
            self.died = True
            _kill_jvm()
        super()._warm(context)


def _kill_jvm() -> None:
    for child in psutil.Process().children(recursive=True):
        if child.name() == "java":
            child.kill()
            child.wait()
            return
    raise AssertionError("there is none")


def main(scratch: Path) -> None:
    """Two deaths, then a start."""
    begun = ContextStart(_SETTINGS, scratch)
    until(lambda: SparkContext._gateway is not None, "the first one answers")
    _kill_jvm()
    assert begun.result() is None
    runner = DiesOnce(scratch, begun)
    runner.begin()
    until(lambda: runner.broken, "the second one has died")
    runner.clock.ms += _AGAIN_MS
    runner.begin()
    until(lambda: runner.up, "the third one runs")
    assert runner.died
    runner.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
