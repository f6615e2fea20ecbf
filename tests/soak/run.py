"""A soak of the Kafka sink: load, kills, and the judgement of an ordinary consumer.

Two changefeeds of one upstream: ``shop`` is a mixed load, folded and compared value by value;
``picks`` has a filter with value expressions, and every change that passes is counted.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from contextlib import ExitStack

from bench.fold import Fold, Verdict, judge
from bench.follow import Follower
from bench.workload import Workload
from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.servers.process import data_folder
from tests.soak import picks
from tests.soak.ddl_judge import of_topic
from tests.soak.ddl_judge import verdict as counted
from tests.soak.ddl_load import Change
from tests.soak.plan import (
    CATCH_UP_S,
    SETTINGS,
    Control,
    Plan,
    Result,
    Say,
    kill,
    lacking,
    restart_idle,
    show_stuck,
    table,
)
from tests.soak.victims import BROKER, UPSTREAM, Killer

SHOP, PICKS = "shop", "picks"
_PARTITIONS = 4
_PICKS_PER_S = 60.0
_MODULES = {Control.LEDGER: "tests.soak.without_ledger", Control.ROWS: "tests.soak.without_rows"}


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
    load = Workload(database.connect, database.kind, rows_per_s=plan.rows_per_s, marked=True)
    load.prepare()
    picks.make_tables(database.connect)
    picked = picks.Picks(database.connect, _PICKS_PER_S, plan.seed)
    module = plan.module(_MODULES)
    capture = CaptureProcess(folder, settings=SETTINGS, module=module)
    stack.callback(capture.close)
    capture.start()
    capture.register("main", database.uri())
    sink = f"kafka://{broker.bootstrap}/{{}}?protocol=canal-json&partition-num={_PARTITIONS}"
    sink += "&write-timeout=2s"
    by_key = {"dispatchers": [{"matcher": ["*.*"], "partition": "index-value"}]}
    capture.create(SHOP, "main", sink.format(SHOP), load.rules, {"sink": by_key})
    capture.create(PICKS, "main", sink.format(PICKS), [], {"sink": by_key, "filter": picks.FILTER})
    fold = Fold(load.tables)
    follower = Follower(broker.bootstrap, SHOP, fold)
    stack.callback(follower.close)

    def newest() -> float:
        follower.check()
        if load.stopping.is_set():
            load.stop()
        return fold.times[-1] - fold.lags[-1] if fold.lags else 0.0

    killer = Killer(capture, {BROKER: broker, UPSTREAM: database}, newest, plan.seed, say)
    load.start()
    picked.start()
    say(f"{plan.server}, Kafka 4.1, {plan.rows_per_s:.0f} row changes/s, SEED={plan.seed}")
    try:
        kill(plan, killer, say)
        killer.await_delivery()
    except AssertionError as error:
        say(f"stuck: {error}; {load.committed.rows} row changes, {fold.messages} messages")
        show_stuck(capture, (SHOP, PICKS), say)
        raise
    committed = load.stop()
    picked.stop()
    complete = follower.wait(committed, CATCH_UP_S)
    if not complete:
        say(f"not everything arrived; the changefeed: {capture.feed(SHOP)}")
    capture.wait_checkpoint(PICKS, timeout_s=CATCH_UP_S)
    restart_idle(capture, killer.phases, (SHOP, PICKS), say)
    # What an idle changefeed would repeat lies behind what was read before.
    complete = follower.wait(committed, CATCH_UP_S) and complete
    verdict = judge(fold, committed, database.connect, load.schema, load.tables)
    verdict = _with_picks(verdict, picked.made, of_topic(topics.read(broker.bootstrap, [PICKS])))
    lines = table(killer)
    lines.append(
        f"{committed.rows} row changes in {committed.transactions} transactions, "
        f"{fold.messages} messages; {picked.made.total()} changes passed the filter, "
        f"{picked.hidden} did not; {time.monotonic() - began:.0f} s"
    )
    found = tuple(lacking(killer)) if plan.control is None else ()
    return Result(verdict, killer.kills, killer.recovering, complete, tuple(lines), found)


def _with_picks(verdict: Verdict, made: Counter[Change], seen: Counter[Change]) -> Verdict:
    """The judgement with that of the filtered changefeed added."""
    more = counted(made, {PICKS: seen})
    return Verdict(
        verdict.tables,
        verdict.lost + more.lost,
        verdict.duplicated + more.duplicated,
        verdict.disordered,
        verdict.uncommitted + more.uncommitted,
        verdict.examples + more.examples,
    )
