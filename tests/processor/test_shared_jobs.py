"""Small windows share jobs once as many run as run at once, and each has its own answer."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.base.ids import FeedId
from processor.shared_jobs import SharedJobs
from processor.task_messages import Ack, Descriptor
from tests.waiting import until

AT_ONCE = 2
KAFKA, OTHER = "kafka://a:9092", "kafka://b:9092"


@dataclass(frozen=True)
class Numbered:
    """A window that is its number, of a changefeed of that name."""

    number: int
    anywhere: bool = True

    @property
    def plan(self) -> SimpleNamespace:
        return SimpleNamespace(feed=FeedId("tests", str(self.number), 1))


class Cluster:
    """Runs jobs when it is let; the answer to a window has as many rows as its number."""

    def __init__(self) -> None:
        self.jobs: list[list[int]] = []
        self.go = threading.Event()
        self.fails: set[int] = set()

    def deliver(self, windows: Sequence[Descriptor], description: str, timeout: float) -> list[Ack]:
        numbers = [cast("Numbered", window).number for window in windows]
        self.jobs.append(numbers)
        assert self.go.wait(60)
        if self.fails & set(numbers):
            raise ConnectionError("a worker died")
        return [Ack(destinations=(), rows=n) for n in numbers]


def _ask(pool: ThreadPoolExecutor, jobs: SharedJobs, number: int, shared: str) -> Future[Ack]:
    window = cast("Any", Numbered(number))
    return pool.submit(jobs.run, window, f"window {number}", 60.0, shared)


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


class Workers:
    """Take jobs in turn, and open for a window what it needs, where none is told to leave it."""

    def __init__(self, count: int) -> None:
        self.open: list[set[int]] = [set() for _ in range(count)]
        self.openings = 0
        self.delivered: Counter[int] = Counter()
        self.go = threading.Event()
        self.go.set()
        self._guard = threading.Lock()
        self._next = 0

    def deliver(self, windows: Sequence[Descriptor], description: str, timeout: float) -> list[Ack]:
        assert self.go.wait(60)
        with self._guard:
            mine = self.open[self._next]
            self._next = (self._next + 1) % len(self.open)
            return [self._one(cast("Numbered", window), mine) for window in windows]

    def _one(self, window: Numbered, mine: set[int]) -> Ack:
        if window.number not in mine:
            if not window.anywhere:
                return Ack(destinations=(), left=True)
            mine.add(window.number)
            self.openings += 1
        self.delivered[window.number] += 1
        return Ack(destinations=(), rows=window.number)


def _waiting(jobs: SharedJobs) -> int:
    return len(jobs._queues[KAFKA].waiting) if KAFKA in jobs._queues else 0


def _rounds(workers: Workers, jobs: SharedJobs, count: int) -> None:
    """Windows of so many changefeeds at once, five times."""
    with ThreadPoolExecutor(count) as pool:
        for _ in range(5):
            workers.go.clear()
            asked = [_ask(pool, jobs, n, KAFKA) for n in range(count)]
            until(lambda: _waiting(jobs) == count - AT_ONCE, "all wait")
            workers.go.set()
            assert [one.result(60).rows for one in asked] == list(range(count))
    assert workers.delivered == Counter(dict.fromkeys(range(count), 5))
    assert not jobs._queues


def _openings() -> float:
    """How many sinks 300 changefeeds open, in the mean: who comes first is up to their threads."""
    found = []
    for _ in range(4):
        workers = Workers(AT_ONCE)
        _rounds(workers, SharedJobs(workers.deliver, lambda: AT_ONCE), 300)
        found.append(workers.openings)
    return sum(found) / len(found)


def test_a_window_goes_to_the_worker_that_has_its_sink_open() -> None:
    """Each is opened once; what is left of few in a job is opened where it comes."""
    assert _openings() < 450


def test_without_that_it_goes_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: the same, where nothing is left to another worker."""
    monkeypatch.setattr("processor.shared_jobs._LEFT", 0)
    assert _openings() > 450


@pytest.mark.parametrize("count", [1, 4])
def test_with_any_number_of_workers_each_window_is_delivered_once(count: int) -> None:
    workers = Workers(count)
    _rounds(workers, SharedJobs(workers.deliver, lambda: AT_ONCE), 150)


def test_where_no_worker_has_it_open_any_more_it_is_opened() -> None:
    workers = Workers(2)
    jobs = SharedJobs(workers.deliver, lambda: 2)
    with ThreadPoolExecutor(100) as pool:
        for _ in range(3):
            asked = [_ask(pool, jobs, n, KAFKA) for n in range(100)]
            assert [one.result(60).rows for one in asked] == list(range(100))
            workers.open = [set(), set()]


def test_what_is_known_of_changefeeds_that_are_gone_is_forgotten() -> None:
    jobs = SharedJobs(Workers(1).deliver, lambda: 1)
    with ThreadPoolExecutor(1) as pool:
        for n in range(3):
            _ask(pool, jobs, n, KAFKA).result(60)
    jobs.keep(["1"])
    assert {feed.name for feed in jobs._opened} == {"1"}
