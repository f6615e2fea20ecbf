"""A broker that takes little: windows shrink until one goes through, and grow again afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cdc.changelog.index import RunKind
from processor.settings import MIB
from processor.window_size import WindowSize
from tests import servers
from tests.e2e import topics
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Broker, Database
from tests.servers.proxy import Proxy
from tests.source.pulling import Pulled
from tests.waiting import until

WINDOW = 2 * MIB
# A quota counts over so many seconds; what is sent in the first ones passes at any rate.
_SHORT_QUOTA = {"quota.window.num": "6"}
# One statement of short rows, whose messages are some 25 times as large as its run; then statements
# of long rows while the broker is slow, and more of them behind that.
SHORT_ROWS = 1500
SLOWLY, QUICKLY, ROWS = 4, 20, 80
ALL = range(SHORT_ROWS + (SLOWLY + QUICKLY) * ROWS)


@dataclass(frozen=True)
class Slow:
    """A log of runs below 100 KiB, and a broker behind a proxy."""

    folder: Path
    schema: str
    start_ts: int
    slow_ts: int
    end_ts: int
    broker: Broker
    proxy: Proxy

    def ids(self, topic: str) -> list[int]:
        return topics.ids(topics.read(self.broker.internal, [topic]))

    def quota(self, *words: str) -> None:
        """Change the quota of clients that have none of their own."""
        done = self.broker.java_tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", self.broker.internal, "--alter",
            "--entity-type", "clients", "--entity-default", *words,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def slow(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slow]:
    schema = "slow_broker"
    mariadb.execute(f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema}")
    mariadb.execute(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v VARCHAR(1000))")
    folder = tmp_path_factory.mktemp("slow") / "log"
    with Pulled(mariadb, folder) as pulled:
        mariadb.execute(
            f"INSERT INTO {schema}.t SELECT seq, 'x' FROM {schema}.seq_0_to_{SHORT_ROWS - 1}"
        )
        for first in ALL[SHORT_ROWS::ROWS]:
            mariadb.execute(
                f"INSERT INTO {schema}.t SELECT seq, REPEAT('x', 1000)"
                f" FROM {schema}.seq_{first}_to_{first + ROWS - 1}"
            )
        pulled.caught_up()
    log, runs = pulled.runs()
    state, slow_ts = log.state, int(runs.commit_ts[runs.kind == RunKind.DML][SLOWLY])
    log.close()
    with Proxy() as proxy, servers.broker(_SHORT_QUOTA, advertised=proxy.port) as broker:
        proxy.switch(broker.port)
        yield Slow(folder, schema, state.first_ts, slow_ts, state.resolved_ts, broker, proxy)


class Owner:
    """Starts the feed anew whenever it has given up, as the owner does, until all is delivered."""

    def __init__(self, slow: Slow, topic: str, options: str) -> None:
        self._slow, self._topic, self._options = slow, topic, options
        self._epoch, self._size = 0, WindowSize(WINDOW, WINDOW)

    def deliver(self, upto: int) -> WindowSize:
        """Deliver all up to a ts; the size of windows behind that."""
        query = "protocol=canal-json&partition-num=2&write-timeout=1s&read-timeout=10s"
        query += self._options
        sink = f"kafka://127.0.0.1:{self._slow.proxy.port}/{self._topic}?{query}"
        rule = {"matcher": [f"{self._slow.schema}.*"], "partition": "index-value"}
        config: dict[str, Any] = {
            "filter": {"rules": [f"{self._slow.schema}.t"]}, "sink": {"dispatchers": [rule]},
        }  # fmt: skip
        while True:
            self._epoch += 1
            jobs = InProcessJobs()
            running = Running(
                self._slow.folder, sink, config, jobs, start_ts=self._slow.start_ts,
                epoch=self._epoch, barrier_ts=upto, feed=self._topic.replace("_", "-"),
                window_size=self._size, window_bytes=WINDOW,
            )  # fmt: skip
            until(lambda r=running: self._over(r, upto), "it is over", 240)  # type: ignore[misc]
            done = running.reports[-1].checkpoint_ts >= upto
            running.stop()
            self._size = running.feed.window_size
            if done:
                return self._size

    def _over(self, running: Running, upto: int) -> bool:
        done = bool(running.reports) and running.reports[-1].checkpoint_ts >= upto
        return done or not running.feed.alive


@dataclass(frozen=True)
class Limit:
    """A broker that takes less than 100 kB a second until ``lift`` is called.

    ``options`` of the sink are those by which that is too little for a window.
    """

    lift: Callable[[], None]
    options: str


@pytest.fixture(params=["a quota", "a slow line"])
def limit(request: pytest.FixtureRequest, slow: Slow) -> Iterator[Limit]:
    """Return one of the two, which ends with the test."""
    if request.param == "a quota":
        slow.quota("--add-config", "producer_byte_rate=50000")
        lift = partial(slow.quota, "--add-config", "producer_byte_rate=100000000")
        # So small that a window has more batches than are on their way at once: a quota is told
        # with the answers, and holds back what comes behind them.
        made = Limit(lift, "&max-message-bytes=65536")
    else:
        slow.proxy.slow(100_000)
        # A batch takes longer than the write-timeout.
        made = Limit(slow.proxy.go_on, "")
    yield made
    made.lift()


def test_windows_shrink_until_the_broker_takes_them_and_grow_again(
    slow: Slow, limit: Limit, topic_prefix: str
) -> None:
    owner = Owner(slow, topic_prefix, limit.options)
    small = owner.deliver(slow.slow_ts).now
    assert small < WINDOW
    limit.lift()
    assert owner.deliver(slow.end_ts).now > small
    assert Counter(slow.ids(topic_prefix)) == Counter(ALL)
