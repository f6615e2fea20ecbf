"""One soak: load, kills, and the judgement of an ordinary read_committed consumer."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from bench.fold import Fold, Verdict, judge
from bench.follow import Follower
from bench.workload import Workload
from tests import servers
from tests.e2e.capture_process import CaptureProcess
from tests.servers.process import data_folder
from tests.soak.victims import Killer

# Small windows and tasks: a kill then often falls between two commits of one window.
_SETTINGS = """
[owner]
error-backoff-first = 0.5
error-backoff-max = 4.0
[processor]
window-bytes = 1048576
single-task-bytes = 16384
"""
_PARTITIONS = 4
_CATCH_UP_S = 180.0
_SHOWN_LOG = 20_000


@dataclass(frozen=True)
class Plan:
    """How long, how fast, and by which dice. ``minutes`` 0: until all kills are done."""

    kills: int = 10
    minutes: float = 0.0
    seed: int = 1
    rows_per_s: float = 3000.0
    server: str = "mariadb-11.4"
    without_ledger: bool = False


@dataclass(frozen=True)
class Result:
    """What came of it."""

    verdict: Verdict
    kills: int
    complete: bool
    lines: tuple[str, ...]

    def passed(self, plan: Plan) -> bool:
        """Proven; or, without the ledger, shown to repeat messages (and to lose none)."""
        if plan.without_ledger:
            return self.complete and self.verdict.duplicated > 0 and self.verdict.lost == 0
        return self.complete and self.verdict.proven


def soak(plan: Plan, say: Callable[[str], None]) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _soak(stack: ExitStack, plan: Plan, say: Callable[[str], None]) -> Result:
    began = time.monotonic()
    folder, ours = data_folder(None, "soak")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    database = stack.enter_context(servers.database(plan.server))
    broker = stack.enter_context(servers.broker())
    load = Workload(database.connect, database.kind, rows_per_s=plan.rows_per_s)
    load.prepare()
    module = "tests.soak.without_ledger" if plan.without_ledger else "cdc.cli.main"
    capture = CaptureProcess(folder, settings=_SETTINGS, module=module)
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

    killer = Killer(capture, broker, newest, plan.seed)
    load.start()
    say(f"{plan.server}, Kafka 4.1, {plan.rows_per_s:.0f} row changes/s, seed {plan.seed}")
    try:
        _kill(plan, killer, say)
        killer.await_delivery()
    except AssertionError as error:
        say(f"stuck: {error}; {load.committed.rows} row changes, {fold.messages} messages")
        if capture.running:
            say(f"the changefeed: {capture.api('GET', '/changefeeds/soak').text}")
            capture.show_stacks()
        say(capture.text()[-_SHOWN_LOG:])
        raise
    committed = load.stop()
    complete = follower.wait(committed, _CATCH_UP_S)
    if not complete:
        say(f"not everything arrived; the changefeed: {capture.feed('soak')}")
    verdict = judge(fold, committed, database.connect, load.schema, load.tables)
    lines = [
        f"{'killed with -9':20} {'times':>6} {'median s':>8} {'longest':>8}  until newer rows came"
    ]
    lines += [tally.row(name) for name, tally in killer.tallies.items()]
    lines.append(
        f"{committed.rows} row changes in {committed.transactions} transactions, "
        f"{fold.messages} messages, {time.monotonic() - began:.0f} s"
    )
    return Result(verdict, killer.kills, complete, tuple(lines))


def _kill(plan: Plan, killer: Killer, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    while killer.kills < plan.kills:
        if plan.minutes and time.monotonic() - began > 60 * plan.minutes:
            say(f"{plan.minutes:g} minutes are over")
            break
        what = killer.strike()
        if what:
            say(f"{time.monotonic() - began:7.1f} s  kill -9 {killer.kills:4}: {what}")
