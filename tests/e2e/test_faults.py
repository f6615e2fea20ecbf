"""Processes that hang or freeze, connections that fail: nothing lost or twice.

One capture and one broker, which stands behind a proxy; each test has a changefeed of its own. The
soak of faults does the same and more under load, in any order.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import psutil
import pytest

from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import SMALL_WINDOWS, CaptureProcess
from tests.e2e.conftest import CaptureMaker, Way, make_way
from tests.e2e.counting import exactly
from tests.servers import Broker, Database
from tests.servers.proxy import Proxy
from tests.waiting import until

pytestmark = [pytest.mark.real]

_LEASE_S = 10.0
# Longer than the sink's own time-outs: these come first where the broker is at fault.
_JOB_S = 15.0


@dataclass(frozen=True)
class Behind(Way):
    """A way whose broker is reached by a proxy; the test itself goes past it."""

    proxy: Proxy

    def sink(self, topic: str = "", **options: object) -> str:
        """Return a sink URI that leads through the proxy."""
        given = super().sink(topic, partition_num=3, **options)
        return given.replace(self.broker.bootstrap, f"127.0.0.1:{self.proxy.port}")


@pytest.fixture(scope="module")
def line() -> Iterator[tuple[Broker, Proxy]]:
    """A broker and the proxy that its clients are sent to."""
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy())
        broker = stack.enter_context(servers.broker(advertised=proxy.port))
        proxy.switch(broker.port)
        yield broker, proxy


@pytest.fixture(scope="module")
def frail(captures: CaptureMaker) -> CaptureProcess:
    """A capture with small windows, whose jobs are soon given up."""
    return captures(settings=f"{SMALL_WINDOWS}job-timeout-s = {_JOB_S}\nkeep-workers-s = 1.0\n")


@pytest.fixture
def way(
    frail: CaptureProcess, mariadb: Database, line: tuple[Broker, Proxy], fresh_name: str
) -> Iterator[Behind]:
    """A changefeed of one table that has delivered its first row; it is removed afterwards."""
    if not frail.running:
        frail.start()
    made = make_way(frail, mariadb, line[0], fresh_name, "main")
    way = Behind(made.capture, made.database, made.broker, made.upstream, made.schema, line[1])
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))")
    rule = {"matcher": [f"{way.schema}.*"], "partition": "index-value"}
    way.create(config={"sink": {"dispatchers": [rule]}})
    way.execute("INSERT INTO t VALUES (0, 'first')")
    way.delivered()
    yield way
    way.proxy.go_on()
    if frail.running:
        frail.api("DELETE", f"/changefeeds/{way.name}")


def _insert(way: Way, first: int, count: int) -> None:
    way.execute(f"INSERT INTO t SELECT seq, 'v' FROM seq_{first}_to_{first + count - 1}")


def _whole(way: Way, rows: int) -> None:
    """All rows are there once, those behind the fault too."""
    way.delivered(150)
    exactly(_past_the_proxy(way), rows)


def _past_the_proxy(way: Way) -> Way:
    broker = way.broker

    class Direct:
        bootstrap = broker.internal

    return Way(way.capture, way.database, Direct(), way.upstream, way.schema)  # type: ignore[arg-type]


def test_a_capture_that_was_frozen_past_its_lease(way: Behind) -> None:
    os.kill(way.capture.pid, signal.SIGSTOP)
    try:
        _insert(way, 1, 100)
        # The lease is the store's own clock: it passes while nobody can look.
        time.sleep(1.5 * _LEASE_S)
    finally:
        os.kill(way.capture.pid, signal.SIGCONT)
    _insert(way, 101, 100)
    try:
        way.delivered(60)
    except httpx.HTTPError:
        # It may end, as others take it for dead: then it is started again, and goes on.
        until(lambda: not way.capture.running, "the capture has ended")
        way.capture.start()
    _whole(way, 201)


def test_a_broker_that_hangs_is_seen_and_survived(way: Behind) -> None:
    way.broker.signal(signal.SIGSTOP)
    try:
        _insert(way, 1, 100)
        shown = way.capture.wait_state(way.name, "warning", timeout_s=90)
        assert shown["error"]["code"] == "TG:ErrKafkaUnavailable"
        assert shown["error"]["hint"]
    finally:
        way.broker.signal(signal.SIGCONT)
    _insert(way, 101, 100)
    _whole(way, 201)


def test_workers_that_hang_are_given_up_and_replaced(way: Behind) -> None:
    """They stop with a transaction open, and go on only to find that they have been replaced."""
    way.proxy.slow(40_000)
    _insert(way, 1, 500)
    until(lambda: _sent(way) > 1, "a transaction is open")
    hung = way.capture.workers()
    for one in hung:
        one.suspend()
    assert _sent(way, "read_committed") == 1, "the transaction is over"
    way.proxy.go_on()
    shown = way.capture.wait_state(way.name, "warning", timeout_s=90)
    assert shown["error"]["code"] == "TG:ErrJobTimedOut"
    assert shown["error"]["hint"]
    _insert(way, 501, 100)
    _whole(way, 601)
    # One that hangs while it idles shows when it does not answer, though no window goes to it.
    until(lambda: not [one for one in hung if one.is_running()], "who hangs is killed", 90)


def test_a_disk_that_is_full_below_all_of_a_capture(way: Behind) -> None:
    """Log, store, Spark's scratch folder and its workers: no file of theirs grows any more."""
    unlimited = psutil.Process(way.capture.pid).rlimit(resource.RLIMIT_FSIZE)
    _limit_files(way, 1024, unlimited[1])
    try:
        _insert(way, 1, 100)
        # Whatever writes next says so, too: which of them is the first is chance.
        sick = until(lambda: _unwell(way, "puller main"), "the puller says so", 60)
        assert sick["error_code"] == "TG:ErrCaptureUnhealthy"
    finally:
        _limit_files(way, *unlimited)
    _insert(way, 101, 100)
    _whole(way, 201)
    until(lambda: not _unwell(way), "it is well again", 60)


def _limit_files(way: Behind, soft: int, hard: int) -> None:
    for one in way.capture.family():
        with suppress(psutil.NoSuchProcess):
            one.rlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _unwell(way: Behind, part: str = "") -> Any:
    """What the capture answers while it is unwell, once that names the part."""
    answer = way.capture.api("GET", "/health")
    if answer.is_success or part not in answer.json()["error_msg"]:
        return None
    return answer.json()


def _sent(way: Behind, isolation: str = "read_uncommitted") -> int:
    """Messages that an open transaction does not hide, or all."""
    at = way.broker.internal
    return len(topics.records(at, [way.schema], isolation=isolation, unfinished=True))


@pytest.mark.parametrize("how", ["cut", "half-open"])
def test_a_connection_to_the_broker_that_fails(way: Behind, how: str) -> None:
    cuts = way.proxy.cuts
    begin: dict[str, Callable[[], None]] = {
        "cut": lambda: way.proxy.cut_after(40),
        "half-open": way.proxy.lose,
    }
    begin[how]()
    _insert(way, 1, 500)
    if how == "cut":
        until(lambda: way.proxy.cuts > cuts, "an answer was cut in its middle")
    _whole(way, 501)
