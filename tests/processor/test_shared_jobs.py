"""Small windows share jobs once as many run as run at once, and each has its own answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from processor.shared_jobs import SharedJobs
from processor.task_messages import Ack, Descriptor
from tests.waiting import until

AT_ONCE = 2
KAFKA, OTHER = "kafka://a:9092", "kafka://b:9092"


class Cluster:
    """Runs jobs when it is let; a window is its number, and what it answers has as many rows."""

    def __init__(self) -> None:
        self.jobs: list[list[int]] = []
        self.go = threading.Event()
        self.fails: set[int] = set()

    def deliver(self, windows: Sequence[Descriptor], description: str, timeout: float) -> list[Ack]:
        numbers = cast("list[int]", list(windows))
        self.jobs.append(numbers)
        assert self.go.wait(60)
        if self.fails & set(numbers):
            raise ConnectionError("a worker died")
        return [Ack(destinations=(), rows=n) for n in numbers]


def _ask(pool: ThreadPoolExecutor, jobs: SharedJobs, number: int, shared: str) -> Future[Ack]:
    return pool.submit(jobs.run, cast("Any", number), f"window {number}", 60.0, shared)


def test_those_who_wait_go_together_and_others_do_not_wait_for_them() -> None:
    cluster = Cluster()
    jobs = SharedJobs(cluster.deliver, lambda: AT_ONCE)
    with ThreadPoolExecutor(40) as pool:
        asked = [_ask(pool, jobs, n, KAFKA) for n in range(AT_ONCE)]
        until(lambda: len(cluster.jobs) == AT_ONCE, "the first run at once")
        asked += [_ask(pool, jobs, n, KAFKA) for n in range(AT_ONCE, 30)]
        asked.append(_ask(pool, jobs, 100, OTHER))
        until(lambda: [100] in cluster.jobs, "another sink does not wait")
        until(lambda: len(jobs._queues[KAFKA].waiting) == 28, "all wait")
        assert len(cluster.jobs) == AT_ONCE + 1
        cluster.go.set()
        answers = [one.result(60).rows for one in asked]
    assert answers == [*range(30), 100]
    assert sorted(n for job in cluster.jobs for n in job) == [*range(30), 100]
    assert sorted(map(len, cluster.jobs)) == [1, 1, 1, 28]
    assert not jobs._queues


def test_who_is_in_a_job_fails_with_it_and_the_next_ones_run() -> None:
    cluster = Cluster()
    cluster.fails = {1}
    jobs = SharedJobs(cluster.deliver, lambda: 1)
    with ThreadPoolExecutor(100) as pool:
        asked = [_ask(pool, jobs, 0, KAFKA)]
        until(lambda: cluster.jobs == [[0]], "the first runs")
        for number in range(1, 70):
            asked.append(_ask(pool, jobs, number, KAFKA))
            until(lambda n=number: len(jobs._queues[KAFKA].waiting) == n, "it waits")
        cluster.go.set()
        assert asked[0].result(60).rows == 0
        for one in asked[1:65]:
            with pytest.raises(ConnectionError):
                one.result(60)
        assert [one.result(60).rows for one in asked[65:]] == [65, 66, 67, 68, 69]
    assert [len(job) for job in cluster.jobs] == [1, 64, 5]
    assert not jobs._queues
