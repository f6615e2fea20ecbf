"""A soak of the MySQL sink: two changefeeds into one target, kills, and the target's own word.

``shop`` is a mixed load over all buckets; at the end every value is compared and every change is
looked for in the target's binlog. ``bank`` keeps upstream transactions whole; a reader of the
target judges every state that it gets to see, and the ledger with it.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass

import httpx

from bench.target import Watcher, judge_target, wait_same
from bench.workload import Committed, Workload
from tests import servers
from tests.e2e.capture_process import CaptureProcess, until
from tests.servers import Database
from tests.servers.process import data_folder
from tests.soak import bank
from tests.soak.plan import CATCH_UP_S, SETTINGS, Plan, Result, Say, kill, show_stuck, table
from tests.soak.victims import TARGET, Killer

SHOP, BANK = "shop", "bank"
_BUCKETS = 4
_TRANSFERS_PER_S = 100.0
_LOOK_S = 1.0
_CHILD = ("tests.soak.without_ledger_mysql", "tests.soak.daemon_without_ledger")
_LEDGER = (
    "SELECT bucket, epoch, ts, `row` FROM tidegate.ledger WHERE changefeed = '{}' ORDER BY bucket"
)


class Refused(AssertionError):
    """A changefeed has stopped at something that a retry does not mend."""


@dataclass
class _Stage:
    """Both servers, what writes and who looks."""

    upstream: Database
    target: Database
    capture: CaptureProcess
    shop: Workload
    bank: bank.Bank
    watcher: Watcher
    reader: bank.Reader
    looked: float = 0.0

    def newest(self) -> float:
        """The older of the two newest rows that the target shows; raises what goes wrong."""
        self.watcher.check()
        self.reader.check()
        self.bank.check()
        if self.shop.stopping.is_set():
            self.shop.stop()
        if time.monotonic() - self.looked > _LOOK_S and self.capture.running:
            self._look()
        return min(self.watcher.newest, self.reader.newest)

    def _look(self) -> None:
        for feed in (SHOP, BANK):
            try:
                found = self.capture.feed(feed)
            except (httpx.HTTPError, AssertionError):
                return  # A capture that has just been killed, or starts.
            if found["state"] == "failed" or found.get("stopped_tables"):
                raise Refused(f"changefeed {feed}: {found}")
        self.looked = time.monotonic()


def soak(plan: Plan, say: Say) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _set_up(stack: ExitStack, plan: Plan) -> _Stage:
    folder, ours = data_folder(None, "soak")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    upstream = stack.enter_context(servers.database(plan.server))
    target = stack.enter_context(servers.database(plan.server, options=["--server-id=2"]))
    shop = Workload(upstream.connect, upstream.kind, rows_per_s=plan.rows_per_s)
    shop.prepare()
    shop.make_tables(target.connect)
    for server in (upstream, target):
        bank.make_tables(server.connect)
    child = {"module": _CHILD[0], "daemon": _CHILD[1]} if plan.without_ledger else {}
    capture = CaptureProcess(folder, settings=SETTINGS, **child)
    stack.callback(capture.close)
    capture.start()
    capture.register("main", upstream.uri())
    sink = f"{target.uri()}/?worker-count={_BUCKETS}"
    capture.create(SHOP, "main", sink, shop.rules)
    capture.create(BANK, "main", f"{sink}&transaction-atomicity=global", [f"{bank.SCHEMA}.*"])
    watcher = Watcher(target.connect, shop, every_s=0.05)
    stack.callback(watcher.close)
    reader = bank.Reader(target.connect, BANK)
    stack.callback(reader.close)
    teller = bank.Bank(upstream.connect, _TRANSFERS_PER_S, plan.seed)
    return _Stage(upstream, target, capture, shop, teller, watcher, reader)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    stage = _set_up(stack, plan)
    killer = Killer(stage.capture, TARGET, stage.target, stage.newest, plan.seed)
    say(f"{plan.server} to the same, {plan.rows_per_s:.0f} row changes/s, seed {plan.seed}")
    stage.shop.start()
    stage.bank.start()
    refused = ""
    try:
        kill(plan, killer, say)
        killer.await_delivery()
    except AssertionError as error:
        if not (plan.without_ledger and isinstance(error, Refused)):
            show_stuck(stage.capture, (SHOP, BANK), say)
            raise
        refused = str(error)
    committed = stage.shop.stop()
    stage.bank.stop()
    complete = bool(refused) or _wait(stage, say)
    faults = [f"stopped: {refused}"] if refused else []
    faults += [f"the bank's reader: {fault}" for fault in stage.reader.checker.faults[:5]]
    if not refused:
        faults += _ledger_faults(stage) + _bank_faults(stage)
    verdict = judge_target(stage.upstream.connect, stage.target, committed, stage.shop)
    lines = [*table(killer), _summary(stage, committed, time.monotonic() - began)]
    return Result(verdict, killer.kills, complete, tuple(lines), tuple(faults))


def _summary(stage: _Stage, committed: Committed, took_s: float) -> str:
    return (
        f"{committed.rows} row changes in {committed.transactions} transactions, "
        f"{stage.bank.transfers} transfers, {stage.reader.checker.states} states read, "
        f"{took_s:.0f} s"
    )


def _wait(stage: _Stage, say: Say) -> bool:
    same, _ = wait_same(stage.upstream.connect, stage.target.connect, stage.shop, CATCH_UP_S)
    try:
        until(lambda: not _bank_faults(stage), "the banks are the same", CATCH_UP_S)
    except AssertionError:
        same = False
    if not same:
        for feed in (SHOP, BANK):
            say(f"not everything arrived; the changefeed: {stage.capture.feed(feed)}")
    return same


def _bank_faults(stage: _Stage) -> list[str]:
    faults = []
    for name in ("accounts", "transfers"):
        query = f"SELECT * FROM {bank.SCHEMA}.{name} ORDER BY id"
        if stage.upstream.execute(query) != stage.target.execute(query):
            faults.append(f"{bank.SCHEMA}.{name} differs")
    return faults


def _ledger_faults(stage: _Stage) -> list[str]:
    """One row a bucket, one epoch, whole positions, none behind what its changefeed says."""
    faults = []
    for feed, buckets in ((SHOP, _BUCKETS), (BANK, 1)):
        rows = stage.target.execute(_LEDGER.format(feed))
        resolved = stage.capture.feed(feed)["resolved_ts"]
        wrong = [
            [r[0] for r in rows] != list(range(buckets)),
            len({r[1] for r in rows}) != 1,
            any(r[2] is None or r[2] > resolved for r in rows),
        ]
        if any(wrong):
            faults.append(f"ledger of {feed}, resolved ts {resolved}: {rows}")
    return faults
