"""A soak of the MySQL sink: three changefeeds into one target, kills, and the target's own word.

``shop`` is a mixed load over all buckets; at the end every value is compared and every change is
looked for in the target's binlog. ``bank`` keeps upstream transactions whole; a reader of the
target judges every state that it gets to see, and the ledger with it. ``picks`` has a filter with
value expressions. Upstream and target may be of two families: columns that both know, then. At the
end nobody may see the passwords that the capture has for both.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass

import httpx

from bench.fold import Verdict
from bench.target import Watcher, judge_target, wait_same
from bench.workload import Committed, Workload
from tests import servers
from tests.e2e.capture_process import CaptureProcess
from tests.servers import Database
from tests.servers.process import data_folder
from tests.soak import bank, picks, planted
from tests.soak.ddl_judge import of_binlog
from tests.soak.ddl_judge import verdict as counted
from tests.soak.plan import (
    CATCH_UP_S,
    SETTINGS,
    Control,
    Fault,
    Kind,
    Plan,
    Result,
    Say,
    kill,
    lacking,
    restart_idle,
    show_stuck,
    table,
)
from tests.soak.victims import TARGET, UPSTREAM, Killer
from tests.waiting import until

SHOP, BANK, PICKS = "shop", "bank", "picks"
FEEDS = (SHOP, BANK, PICKS)
_PICKS_PER_S = 40.0
# MySQL's mysqlbinlog gives a row up where a POINT stands in it, and the judge reads by it.
_UNREADABLE = ("a_point",)
_BUCKETS = 4
_TRANSFERS_PER_S = 100.0
_LOOK_S = 1.0
_WITHOUT_LEDGER = "tests.soak.without_ledger_mysql"
_UNMASKED = "tests.soak.without_mask"
# What a target says of a row that has come before: it is there, or gone, already.
_CAME_TWICE = frozenset({"TG:ErrTargetDuplicateKey", "TG:ErrTargetRowMissing"})
_LEDGER = (
    "SELECT bucket, epoch, ts, `row` FROM tidegate.ledger WHERE changefeed = '{}' ORDER BY bucket"
)


class Refused(AssertionError):
    """A changefeed has stopped at something that a retry does not mend, with these codes."""

    def __init__(self, text: str, codes: frozenset[str]) -> None:
        super().__init__(text)
        self.codes = codes

    @property
    def fault(self) -> Fault:
        """What it is: the target has noticed what its binlog cannot show any more."""
        twice = self.codes and self.codes <= _CAME_TWICE
        return Fault(Kind.DUPLICATED if twice else Kind.STOPPED, str(self))


@dataclass
class _Stage:
    """Both servers, what writes and who looks."""

    upstream: Database
    target: Database
    capture: CaptureProcess
    shop: Workload
    bank: bank.Bank
    picks: picks.Picks
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
        for feed in FEEDS:
            try:
                found = self.capture.feed(feed)
            except (httpx.HTTPError, AssertionError):
                return  # A capture that has just been killed, or starts.
            if found["state"] == "failed" or found.get("stopped_tables"):
                stopped = [found, *(found.get("stopped_tables") or [])]
                codes = {str(at["error"]["code"]) for at in stopped if at["error"]}
                raise Refused(f"changefeed {feed}: {found}", frozenset(codes))
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
    name = plan.target or plan.server
    target = stack.enter_context(servers.database(name, options=["--server-id=2"]))
    family = upstream.kind if upstream.kind == target.kind else "both"
    without = _UNREADABLE if target.kind == "mysql" else ()
    shop = Workload(
        upstream.connect, family, rows_per_s=plan.rows_per_s, marked=True, without=without
    )
    shop.prepare()
    shop.make_tables(target.connect)
    for server in (upstream, target):
        bank.make_tables(server.connect)
        picks.make_tables(server.connect)
    without_ledger = plan.control is Control.LEDGER
    child = {"module": _WITHOUT_LEDGER} if without_ledger else {}
    if plan.control is Control.MASK:
        child = {"module": _UNMASKED}
    capture = CaptureProcess(folder, settings=SETTINGS, **child)
    stack.callback(capture.close)
    capture.start()
    capture.register("main", planted.plant(upstream, _secrets(plan)[0]))
    sink = f"{planted.plant(target, _secrets(plan)[1])}/?worker-count={_BUCKETS}"
    capture.create(SHOP, "main", sink, shop.rules)
    # The control: rows of one transaction go by several buckets, each of its own transactions.
    atomicity = "none" if plan.control is Control.ATOMICITY else "global"
    capture.create(BANK, "main", f"{sink}&transaction-atomicity={atomicity}", [f"{bank.SCHEMA}.*"])
    capture.create(PICKS, "main", sink, [], {"filter": picks.FILTER})
    watcher = Watcher(target.connect, shop, every_s=0.05)
    stack.callback(watcher.close)
    reader = bank.Reader(target.connect, BANK)
    stack.callback(reader.close)
    teller = bank.Bank(upstream.connect, _TRANSFERS_PER_S, plan.seed)
    picked = picks.Picks(upstream.connect, _PICKS_PER_S, plan.seed)
    return _Stage(upstream, target, capture, shop, teller, picked, watcher, reader)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    stage = _set_up(stack, plan)
    around = {TARGET: stage.target, UPSTREAM: stage.upstream}
    killer = Killer(stage.capture, around, stage.newest, plan.seed, say)
    to = plan.target or "the same"
    say(f"{plan.server} to {to}, {plan.rows_per_s:.0f} row changes/s, SEED={plan.seed}")
    stage.shop.start()
    stage.bank.start()
    stage.picks.start()
    refused: Refused | None = None
    try:
        kill(plan, killer, say)
        killer.await_delivery()
    except AssertionError as error:
        if not (plan.control is Control.LEDGER and isinstance(error, Refused)):
            show_stuck(stage.capture, FEEDS, say)
            raise
        refused = error
    committed = stage.shop.stop()
    stage.bank.stop()
    stage.picks.stop()
    killer.settle()
    complete = refused is not None or _wait(stage, say)
    if complete and not refused:
        restart_idle(stage.capture, killer.phases, FEEDS, say)
    faults = [refused.fault] if refused else []
    faults += [Fault(Kind.TORN, fault) for fault in stage.reader.checker.faults[:5]]
    if not refused:
        faults += _ledger_faults(stage) if plan.control is not Control.ATOMICITY else []
        faults += _bank_faults(stage)
    if plan.control is None:
        faults += lacking(killer)
    faults += planted.shown(stage.capture, _secrets(plan))
    verdict = judge_target(stage.upstream.connect, stage.target, committed, stage.shop)
    verdict = _with_picks(verdict, stage)
    lines = [*table(killer), _summary(stage, committed, time.monotonic() - began)]
    return Result(verdict, killer.kills, killer.recovering, complete, tuple(lines), tuple(faults))


def _secrets(plan: Plan) -> tuple[str, str]:
    """The passwords of upstream and target."""
    return f"upstreams-Pl4nted-{plan.seed}", f"targets-Pl4nted-{plan.seed}"


def _with_picks(verdict: Verdict, stage: _Stage) -> Verdict:
    """The judgement with that of the filtered changefeed added."""
    more = counted(stage.picks.made, {PICKS: of_binlog(stage.target, picks.SCHEMA)})
    return Verdict(
        verdict.tables,
        verdict.lost + more.lost,
        verdict.duplicated + more.duplicated,
        verdict.disordered,
        verdict.uncommitted + more.uncommitted,
        verdict.examples + more.examples,
    )


def _summary(stage: _Stage, committed: Committed, took_s: float) -> str:
    return (
        f"{committed.rows} row changes in {committed.transactions} transactions, "
        f"{stage.bank.transfers} transfers, {stage.reader.checker.states} states read, "
        f"{stage.picks.made.total()} changes passed the filter, {stage.picks.hidden} did not, "
        f"{took_s:.0f} s"
    )


def _wait(stage: _Stage, say: Say) -> bool:
    same, _ = wait_same(stage.upstream.connect, stage.target.connect, stage.shop, CATCH_UP_S)
    try:
        until(lambda: not _bank_faults(stage), "the banks are the same", CATCH_UP_S)
        stage.capture.wait_checkpoint(PICKS, timeout_s=CATCH_UP_S)
    except AssertionError:
        same = False
    if not same:
        for feed in FEEDS:
            say(f"not everything arrived; the changefeed: {stage.capture.feed(feed)}")
    return same


def _bank_faults(stage: _Stage) -> list[Fault]:
    faults = []
    for name in ("accounts", "transfers"):
        query = f"SELECT * FROM {bank.SCHEMA}.{name} ORDER BY id"
        if stage.upstream.execute(query) != stage.target.execute(query):
            faults.append(Fault(Kind.DIFFERENT, f"{bank.SCHEMA}.{name}"))
    return faults


def _ledger_faults(stage: _Stage) -> list[Fault]:
    """One row a bucket, one epoch, whole positions, none behind what its changefeed says."""
    faults = []
    for feed, buckets in ((SHOP, _BUCKETS), (BANK, 1), (PICKS, _BUCKETS)):
        rows = stage.target.execute(_LEDGER.format(feed))
        resolved = stage.capture.feed(feed)["resolved_ts"]
        wrong = [
            [r[0] for r in rows] != list(range(buckets)),
            len({r[1] for r in rows}) != 1,
            any(r[2] is not None and r[2] > resolved for r in rows),
            # Keys go by blocks of neighbours, so a short run of few keys leaves buckets empty.
            sum(r[2] is None for r in rows) > (buckets - 1 if feed == PICKS else 0),
        ]
        if any(wrong):
            faults.append(Fault(Kind.LEDGER, f"{feed}, resolved ts {resolved}: {rows}"))
    return faults
