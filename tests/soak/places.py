"""One upstream, and the two places that its changes go to: a topic, and a database of its own.

A mixed load writes; an ordinary consumer and a reader of the target tell what is the newest row in
both places, and at the end judge every change and every value.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from bench.fold import Fold, Verdict, judge
from bench.follow import Follower
from bench.target import Watcher, judge_target, wait_same
from bench.workload import Committed, Workload
from tests import servers
from tests.e2e.capture_process import CaptureProcess
from tests.servers import Broker, Database
from tests.servers.proxy import Proxy
from tests.soak.plan import CATCH_UP_S, Plan
from tests.waiting import until

TOPIC, DATABASE = "topic", "database"
FEEDS = (TOPIC, DATABASE)
UPSTREAM = "main"
_PARTITIONS, _BUCKETS = 3, 3
_BY_KEY = {"sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "index-value"}]}}


@dataclass
class Places:
    """The servers, what writes, and who looks."""

    upstream: Database
    target: Database
    broker: Broker
    load: Workload
    fold: Fold
    follower: Follower
    watcher: Watcher

    def newest(self) -> float:
        """Unix time of the older of the newest rows of both places; raises what went wrong."""
        self.follower.check()
        self.watcher.check()
        if self.load.stopping.is_set():
            self.load.stop()
        times = self.fold.times
        return min(times[-1] - self.fold.lags[-1] if times else 0.0, self.watcher.newest)

    def await_newer(
        self, timeout_s: float, than: float = 0.0, beside: Callable[[], None] = lambda: None
    ) -> float:
        """Wait until both places show a row written after ``than`` (Unix time; now, if 0).

        ``beside`` is done at each look. Returns the Unix time at which they did.
        """
        than = than or time.time()

        def look() -> bool:
            beside()
            return self.newest() > than

        until(look, "newer rows in both places", timeout_s)
        return time.time()

    def await_newer_rows(self, timeout_s: float, than: float) -> None:
        """Wait until the database alone shows a row written after ``than`` (Unix time)."""

        def look() -> bool:
            self.watcher.check()
            return self.watcher.newest > than

        until(look, "newer rows in the database", timeout_s)

    def await_all(self, committed: Committed) -> bool:
        """Wait until all is in both places; whether it is."""
        complete = self.follower.wait(committed, CATCH_UP_S)
        same, _ = wait_same(self.load.connect, self.target.connect, self.load, CATCH_UP_S)
        return complete and same

    def judge(self, committed: Committed) -> Verdict:
        """Both places against what was committed, and against what the upstream holds."""
        load = self.load
        topic = judge(self.fold, committed, load.connect, load.schema, load.tables)
        database = judge_target(load.connect, self.target, committed, load)
        return Verdict(
            [*topic.tables, *database.tables],
            topic.lost + database.lost,
            topic.duplicated + database.duplicated,
            topic.disordered + database.disordered,
            topic.uncommitted + database.uncommitted,
            topic.examples + database.examples,
        )


@dataclass
class Servers:
    """What changes come from and go to; behind proxies where ``ports`` are those of proxies."""

    upstream: Database
    target: Database
    broker: Broker
    load: Workload
    ports: Mapping[str, int]

    def create(self, capture: CaptureProcess) -> None:
        """Register the upstream, and create both changefeeds."""
        uri = "mysql://root@127.0.0.1:{}/?ssl-mode=disabled"
        capture.register(UPSTREAM, uri.format(self.ports["upstream"]))
        sink = f"kafka://127.0.0.1:{self.ports['broker']}/{TOPIC}?protocol=canal-json"
        sink += f"&partition-num={_PARTITIONS}&write-timeout=3s&read-timeout=3s"
        capture.create(TOPIC, UPSTREAM, sink, self.load.rules, _BY_KEY)
        sink = f"mysql://root@127.0.0.1:{self.ports['target']}/?worker-count={_BUCKETS}"
        sink += "&read-timeout=5s&write-timeout=5s"
        capture.create(DATABASE, UPSTREAM, sink, self.load.rules)

    def look(self, stack: ExitStack) -> Places:
        """Begin to look at both places; the topic must be there soon."""
        load = self.load
        fold = Fold(load.tables)
        follower = Follower(self.broker.internal, TOPIC, fold)
        stack.callback(follower.close)
        watcher = Watcher(self.target.connect, load, every_s=0.05)
        stack.callback(watcher.close)
        return Places(self.upstream, self.target, self.broker, load, fold, follower, watcher)


def start_servers(
    stack: ExitStack, plan: Plan, proxies: Mapping[str, Proxy] | None = None
) -> Servers:
    """Start all three, with the tables of the load in both databases.

    ``proxies`` (``upstream``, ``broker``, ``target``) are put before them.
    """
    upstream = stack.enter_context(servers.database(plan.server))
    name = plan.target or plan.server
    target = stack.enter_context(servers.database(name, options=["--server-id=2"]))
    advertised = proxies["broker"].port if proxies else None
    broker = stack.enter_context(servers.broker(advertised=advertised))
    ports = {"upstream": upstream.port, "broker": broker.port, "target": target.port}
    for kind, proxy in (proxies or {}).items():
        proxy.switch(ports[kind])
        ports[kind] = proxy.port
    family = upstream.kind if upstream.kind == target.kind else "both"
    without = ("a_point",) if target.kind == "mysql" else ()
    load = Workload(
        upstream.connect, family, rows_per_s=plan.rows_per_s, marked=True, without=without
    )
    load.prepare()
    load.make_tables(target.connect)
    return Servers(upstream, target, broker, load, ports)
