"""When Spark is started, and what it is to others before and behind that."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from processor.settings import ProcessorSettings
from processor.spark import session
from processor.spark.session import SparkRunner
from tests.changelog.logs import StillClock
from tests.processor import dying_jvm
from tests.waiting import until

_AGAIN_MS = 10_000
_CORES = len(os.sched_getaffinity(0))


class Context:
    """A stand-in for Spark's context, whose JVM ends when it is told to."""

    defaultParallelism = 3  # noqa: N815

    def __init__(self) -> None:
        self.code: int | None = None
        self._gateway = SimpleNamespace(proc=SimpleNamespace(poll=lambda: self.code))


class Opened(SparkRunner):
    """A runner whose contexts are stand-ins; ``errors`` are raised in their place first."""

    def __init__(self, master: str, errors: list[Exception], folder: Path) -> None:
        self.clock = StillClock()
        super().__init__(ProcessorSettings(spark_master=master), folder, clock=self.clock)
        self.errors, self.starts = errors, 0

    def start(self) -> None:
        self.starts += 1
        if self.errors:
            raise self.errors.pop()
        self._context: Any = Context()
        self._warmed = True


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({}, True),
        ({"spark_start": "at-once"}, False),
        ({"spark_master": "spark://h:7077"}, False),
        ({"resident_workers": False}, False),
    ],
)
def test_it_waits_where_others_deliver_meanwhile(given: dict[str, Any], waits: bool) -> None:
    assert ProcessorSettings(**given).spark_waits is waits


def test_a_capture_that_waits_for_spark_does_not_load_it() -> None:
    """Neither does what its workers are forked from, before it is Spark's daemon."""
    code = (
        "import sys, cdc.cli.server, cdc.server.capture, cdc.api.serve\n"
        "from processor.settings import ProcessorSettings\n"
        "from processor.spark import context, task\n"
        "context.configuration(ProcessorSettings())\n"
        "task.load_modules()\n"
        "print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1), ("local[3]", 3), ("local[*]", _CORES), ("local[2,4]", 2),
        ("local[*,1]", _CORES), ("local-cluster[2,1,1024]", None), ("spark://h:7077", None),
        ("local[x]", None),
    ],
)  # fmt: skip
def test_cores_of_a_local_master_are_known_before_it_runs(master: str, cores: int | None) -> None:
    assert ProcessorSettings(spark_master=master).local_cores == cores


def test_it_is_started_once_by_who_needs_it(tmp_path: Path) -> None:
    runner = Opened("local[2]", [], tmp_path)
    assert (runner.up, runner.broken, runner.parallelism, runner.starts) == (False, False, 2, 0)
    for _ in range(3):
        runner.begin()
    until(lambda: runner.up, "it runs")
    runner.begin()
    assert (runner.starts, runner.broken) == (1, False)
    assert runner.parallelism == 3, "as it says itself"


def test_one_that_has_ended_is_started_anew(tmp_path: Path) -> None:
    runner = Opened("local[2]", [], tmp_path)
    runner.begin()
    until(lambda: runner.up, "it runs")
    context: Any = runner._context
    context.code = 1
    assert (runner.up, runner.broken) == (False, True)
    runner.clock.ms += _AGAIN_MS
    runner.begin()
    until(lambda: runner.up, "another one runs")
    assert (runner.starts, runner.broken) == (2, False)


def test_one_that_does_not_start_is_tried_again_later(tmp_path: Path) -> None:
    runner = Opened("local[2]", [RuntimeError("no memory")], tmp_path)
    runner.begin()
    until(lambda: runner.broken, "it is known")
    runner.clock.ms += _AGAIN_MS - 1
    runner.begin()
    assert runner.starts == 1, "it is not tried again and again"
    runner.clock.ms += 1
    runner.begin()
    until(lambda: runner.up, "it runs")
    assert not runner.broken


def test_one_whose_workers_do_not_start_is_ended_and_another_one_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[MagicMock] = []

    def open_context(*_: object) -> MagicMock:
        context = MagicMock()
        context._gateway.proc.poll.return_value = None
        opened.append(context)
        return context

    warmed = [None, RuntimeError("a worker died")]

    def warm(*_: object) -> None:
        if (error := warmed.pop()) is not None:
            raise error

    monkeypatch.setattr(session, "open_context", open_context)
    monkeypatch.setattr(session, "watched", lambda *_: nullcontext())
    monkeypatch.setattr(SparkRunner, "_warm", warm)
    clock = StillClock()
    runner = SparkRunner(ProcessorSettings(spark_master="local[2]"), tmp_path, clock=clock)
    runner.begin()
    until(lambda: runner.broken, "it is known")
    assert opened[0].stop.called
    clock.ms += _AGAIN_MS
    runner.begin()
    until(lambda: runner.up, "another one runs")
    assert len(opened) == 2
    assert not opened[1].stop.called


def test_one_that_dies_while_it_starts_is_replaced(tmp_path: Path) -> None:
    command = [sys.executable, "-m", dying_jvm.__name__, str(tmp_path / "scratch")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
