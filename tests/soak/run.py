"""A soak of the Kafka sink: load, kills, and the judgement of an ordinary consumer."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack

from bench.fold import Fold, judge
from bench.follow import Follower
from bench.workload import Workload
from tests import servers
from tests.e2e.capture_process import CaptureProcess
from tests.servers.process import data_folder
from tests.soak.plan import CATCH_UP_S, SETTINGS, Plan, Result, Say, kill, show_stuck, table
from tests.soak.victims import BROKER, Killer

_PARTITIONS = 4


def soak(plan: Plan, say: Say) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    folder, ours = data_folder(None, "soak")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    database = stack.enter_context(servers.database(plan.server))
    broker = stack.enter_context(servers.broker())
    load = Workload(database.connect, database.kind, rows_per_s=plan.rows_per_s)
    load.prepare()
    module = "tests.soak.without_ledger" if plan.without_ledger else "cdc.cli.main"
    capture = CaptureProcess(folder, settings=SETTINGS, module=module)
    stack.callback(capture.close)
    capture.start()
    capture.register("main", database.uri())
    sink = f"kafka://{broker.bootstrap}/shop?protocol=canal-json&partition-num={_PARTITIONS}"
    rule = {"matcher": ["shop.*"], "partition": "index-value"}
    config = {"sink": {"dispatchers": [rule]}}
    capture.create("soak", "main", f"{sink}&write-timeout=2s", load.rules, config)
    fold = Fold(load.tables)
    follower = Follower(broker.bootstrap, "shop", fold)
    stack.callback(follower.close)

    def newest() -> float:
        follower.check()
        if load.stopping.is_set():
            load.stop()
        return fold.times[-1] - fold.lags[-1] if fold.lags else 0.0

    killer = Killer(capture, BROKER, broker, newest, plan.seed)
    load.start()
    say(f"{plan.server}, Kafka 4.1, {plan.rows_per_s:.0f} row changes/s, seed {plan.seed}")
    try:
        kill(plan, killer, say)
        killer.await_delivery()
    except AssertionError as error:
        say(f"stuck: {error}; {load.committed.rows} row changes, {fold.messages} messages")
        show_stuck(capture, ("soak",), say)
        raise
    committed = load.stop()
    complete = follower.wait(committed, CATCH_UP_S)
    if not complete:
        say(f"not everything arrived; the changefeed: {capture.feed('soak')}")
    verdict = judge(fold, committed, database.connect, load.schema, load.tables)
    lines = table(killer)
    lines.append(
        f"{committed.rows} row changes in {committed.transactions} transactions, "
        f"{fold.messages} messages, {time.monotonic() - began:.0f} s"
    )
    return Result(verdict, killer.kills, complete, tuple(lines))
