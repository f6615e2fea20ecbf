"""Applications without executors are ended, each next one later: a slow start is not for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from processor.settings import ProcessorSettings
from processor.spark import session
from processor.spark.watching_jobs import ExecutorsDue, ExecutorsLost


def test_none_is_due_before_the_first() -> None:
    due = ExecutorsDue(60.0)
    assert due.within_s == 0.0
    due.came()
    assert due.within_s == 60.0


def test_each_next_application_has_twice_the_time_until_executors_come() -> None:
    due = ExecutorsDue(60.0)
    due.came()
    times = []
    for _ in range(6):
        due.lost()
        times.append(due.within_s)
    assert times == [120.0, 240.0, 480.0, 960.0, 960.0, 960.0]
    due.came()
    assert due.within_s == 60.0


def test_nothing_is_ended_where_that_is_not_looked_at() -> None:
    due = ExecutorsDue(0.0)
    due.came()
    due.lost()
    assert due.within_s == 0.0


def test_a_runner_gives_executors_that_are_slow_to_start_the_time_they_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors come to the third application, as they take longer than the time of two."""
    given: list[float] = []

    @contextmanager
    def slow(*of_job: Any) -> Iterator[None]:
        *_, within_s = of_job
        given.append(within_s)
        if 0 < within_s < 100:
            raise ExecutorsLost("none came in time", object="workers")
        yield

    monkeypatch.setattr(session, "watched", slow)
    monkeypatch.setattr(session, "open_context", lambda *_: _Application())
    settings = ProcessorSettings(spark_master="spark://busy:7077", executors_timeout_s=30.0)
    runner = session.SparkRunner(settings, tmp_path)
    runner.start()
    for _ in range(5):
        with suppress(ExecutorsLost):
            runner.tend([])
            assert runner.parallelism
    assert given == [0.0, 30.0, 60.0, 120.0, 30.0, 60.0]


class _Application:
    """A Spark context that runs no jobs, and logs as it is told."""

    defaultParallelism = 1  # noqa: N815 -- Spark's name
    _gateway = SimpleNamespace(proc=None)

    def __getattr__(self, _: str) -> Any:
        return _Anything()

    def parallelize(self, *_: Any) -> Any:
        return _Anything()

    def stop(self) -> None:
        """Ends nothing."""


class _Anything:
    def __getattr__(self, _: str) -> Any:
        return self

    def __call__(self, *_: Any) -> Any:
        return self
