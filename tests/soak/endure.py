"""A soak without kills: rows and schema changes for an hour, into Kafka and a database.

Nothing may be lost or repeated, and nothing may grow: see ``endure_growth``.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from bench.fold import Fold, Verdict, judge
from bench.follow import Follower
from bench.target import judge_target, wait_same
from bench.workload import Workload
from tests import servers
from tests.e2e.capture_process import CaptureProcess
from tests.servers.process import data_folder
from tests.soak import endure_load
from tests.soak.endure_growth import Growth, Sampler, grown, head
from tests.soak.plan import CATCH_UP_S, Say, show_stuck
from tests.waiting import until

KAFKA, MYSQL = "to-kafka", "to-mysql"
_LOOK_S = 5.0
# A log that keeps little, so that what does not go with its segments shows.
_SETTINGS = """
[owner]
error-backoff-first = 0.5
error-backoff-max = 4.0
[changelog]
segment-bytes = 16777216
keep-s = 10
collect-s = 5.0
snapshot-statements = 40
free-space-reserve-bytes = 0
[processor]
spark-start = "at-once"
"""
# Segments come and go; how many there are depends on how late the slower changefeed is.
_ALLOWED_MB = {"log": 64.0, "mapped": 256.0, "JVM": 64.0, "workers": 48.0}
_BESIDE_MB = 1.0


@dataclass(frozen=True)
class Enduring:
    """How long, how fast, how many schema changes."""

    minutes: float
    rows_per_s: float = 5000.0
    changes_per_min: float = 60.0
    server: str = "mariadb-11.4"


@dataclass(frozen=True)
class Endured:
    """What came of it."""

    verdicts: dict[str, Verdict]
    growth: tuple[Growth, ...]
    faults: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Nothing lost, nothing repeated, nothing grows."""
        proven = all(v.proven for v in self.verdicts.values())
        return proven and not self.faults and all(g.flat for g in self.growth)

    def counts(self) -> str:
        """Both verdicts in one line."""
        lost = sum(v.lost for v in self.verdicts.values())
        return f"lost {lost}, duplicated {sum(v.duplicated for v in self.verdicts.values())}"


def main(plan: Enduring, say: Say) -> int:
    """Soak and say what came of it; the exit code."""
    result = soak(plan, say)
    for line in (*result.lines, *result.faults):
        say(line)
    if not result.passed:
        say("FAILED")
    say(result.counts())
    return 0 if result.passed else 1


def soak(plan: Enduring, say: Say) -> Endured:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _soak(stack: ExitStack, plan: Enduring, say: Say) -> Endured:
    folder, ours = data_folder(None, "soak")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    upstream = stack.enter_context(servers.database(plan.server))
    target = stack.enter_context(servers.database(plan.server, options=["--server-id=2"]))
    broker = stack.enter_context(servers.broker())
    shop = Workload(upstream.connect, upstream.kind, rows_per_s=plan.rows_per_s)
    shop.prepare()
    shop.make_tables(target.connect)
    for server in (upstream, target):
        endure_load.make_tables(server.connect)
    churn = endure_load.Churn(upstream.connect, plan.changes_per_min)
    capture = CaptureProcess(folder, settings=_SETTINGS)
    stack.callback(capture.close)
    capture.start()
    capture.register("main", upstream.uri())
    rules = [*shop.rules, f"{endure_load.SCHEMA}.*"]
    topic = f"kafka://{broker.bootstrap}/shop?protocol=canal-json&partition-num=4"
    by_key = {"sink": {"dispatchers": [{"matcher": ["shop.*"], "partition": "index-value"}]}}
    capture.create(KAFKA, "main", topic, rules, by_key)
    capture.create(MYSQL, "main", f"{target.uri()}/?worker-count=4", rules)
    fold = Fold(shop.tables)
    follower = Follower(broker.bootstrap, "shop", fold)
    stack.callback(follower.close)
    say(
        f"{plan.server} to Kafka and {plan.server}, {plan.minutes:g} minutes, "
        f"{plan.rows_per_s:.0f} row changes/s, {plan.changes_per_min:g} schema changes a minute"
    )
    shop.start()
    churn.start()
    sampler = Sampler(capture, min(_LOOK_S, plan.minutes * 60 / 40))
    faults = _watch(plan, capture, shop, churn, follower, say)
    took_s = sampler.stop()
    committed = shop.stop()
    churn.stop()
    if not follower.wait(committed, CATCH_UP_S):
        faults.append("not everything came to the topic")
    if not wait_same(upstream.connect, target.connect, shop, CATCH_UP_S)[0]:
        faults.append("not everything came to the database")
    try:
        same = partial(endure_load.different, upstream.connect, target.connect)
        until(lambda: not same(), f"{endure_load.SCHEMA} is the same", CATCH_UP_S)
    except AssertionError:
        where = endure_load.different(upstream.connect, target.connect)
        faults.append(f"{endure_load.SCHEMA} differs: {where[:5]}")
    if faults:
        show_stuck(capture, (KAFKA, MYSQL), say)
    verdicts = {
        KAFKA: judge(fold, committed, upstream.connect, shop.schema, shop.tables),
        MYSQL: judge_target(upstream.connect, target, committed, shop),
    }
    beside = dict.fromkeys(("store", "log tables", "log statements", "log snapshots"), _BESIDE_MB)
    found = grown(sampler.samples, took_s, {**_ALLOWED_MB, **beside})
    rate = churn.changes / (took_s / 60)
    lines = [head(), *(g.row(rate) for g in found)]
    lines.append(
        f"{committed.rows} row changes in {committed.transactions} transactions, "
        f"{churn.changes} schema changes, {fold.messages} messages, {took_s / 60:.1f} min"
    )
    return Endured(verdicts, tuple(found), tuple(faults), tuple(lines))


def _watch(
    plan: Enduring,
    capture: CaptureProcess,
    shop: Workload,
    churn: endure_load.Churn,
    follower: Follower,
    say: Say,
) -> list[str]:
    """Until the time is over; what stops before ends it."""
    end = time.monotonic() + 60 * plan.minutes
    told = 0.0
    while (now := time.monotonic()) < end:
        follower.check()
        churn.check()
        if shop.stopping.is_set():
            shop.stop()
        feeds = {name: capture.feed(name) for name in (KAFKA, MYSQL)}
        for name, feed in feeds.items():
            if feed["state"] == "failed" or feed.get("stopped_tables"):
                return [f"stopped: {name}: {feed['error']} {feed.get('stopped_tables')}"]
        if now - told > 60:
            told = now
            at = ", ".join(f"{n} {f['state']} {f['checkpoint_time']}" for n, f in feeds.items())
            say(f"{(now - end) / 60 + plan.minutes:6.1f} min  {churn.changes} changes, {at}")
        time.sleep(1.0)
    return []
