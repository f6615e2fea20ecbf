"""DM's optimistic cases: what each comes to here, as the target is given it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.coord.feed_config import FeedConfig
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.difference import DifferenceUnclear
from cdc.schema.table import Table
from filter.decision import DdlFilter
from owner import shard_join
from owner.changes import Changes
from owner.ddl import DDLAction, FeedScope
from sink.dispatch.shards import difference
from sink.mysql.ddl.rewrite import rewrite
from sink.schema_change import Recorded
from tests.shard_ddl.case_table import OPTIMISTIC_BEGIN, OPTIMISTIC_END, PAGE, optimistic_table
from tests.shard_ddl.cases import RESTART, S1, S2, SHARDS, T2, Case, Outcome
from tests.shard_ddl.group import OPTIMISTIC, SESSION, Group
from tests.shard_ddl.optimistic_cases import OPTIMISTIC_CASES
from tests.sink_mysql_ddl.test_rewrite import TO_MARIADB


class OptimisticTarget:
    """The target's schema, which has what the MySQL sink would make of each change."""

    def __init__(self, case: Case) -> None:
        self.catalog, self.runs = Catalog(), 0
        config = FeedConfig.model_validate(OPTIMISTIC)
        scope = FeedScope(DdlFilter(config), optimistic=True)
        self.group = Group(tables=SHARDS, columns=case.columns, scope=scope)
        self.names = scope.filter.targets
        self.recorded: dict[int, Recorded] = {}
        for sql in ("CREATE DATABASE `all`", f"CREATE TABLE `all`.orders ({case.columns})"):
            self.catalog = apply(self.catalog, read_ddl(sql, SESSION))

    def step(self, ts: int, table: str, action: str) -> None:
        """One statement of the upstream, and all that follows from it."""
        if (table, action) == RESTART:
            self.group.restart(self.recorded)
        else:
            whole = action if "{}" in action else f"ALTER TABLE {{}} {action}"
            self.group.ddl(ts, whole.format(table))
        for _ in range(20):
            for order in self.group.tick():
                change = order.ddl.change
                assert change is not None
                self.recorded[order.ddl.ts] = Recorded.SKIPPED if order.skip else Recorded.DONE
                if not order.skip:
                    change = replace(change, replicated=order.replicated)
                    made = rewrite(change, TO_MARIADB, lambda s, t: self.names.target(s, t))
                    for sql in made.statements:
                        self.catalog = apply(self.catalog, read_ddl(sql, SESSION))
                    self.runs += 1
                self.group.done(order.ddl.ts)

    @property
    def unlike(self) -> list[str]:
        """In what the target differs from the tables, where all of them are the same."""
        made = self.catalog.table("all", "orders")
        assert made is not None
        there = [
            self.group.catalog.table(*n) for n in self.group.catalog if n[0] in ("shop", "far")
        ]
        tables = [_sorted(one) for one in there if one is not None]
        if any(difference(tables[0], one) for one in tables):
            return []
        return [what for one in tables if (what := difference(_sorted(made), one))]

    def outcome(self) -> Outcome:
        """What it has come to."""
        pending = self.group.changes.pending
        errors = [p.judged.error or p.obstacle for p in pending]
        codes = {e.code for e in errors if e is not None}
        if codes:
            (code,) = codes
            return Outcome(code)
        if any(p.action is DDLAction.EXECUTE for p in pending):
            return Outcome.WAITS
        assert not pending
        return Outcome.FOLLOWS


def _sorted(table: Table) -> Table:
    return replace(table, columns=tuple(sorted(table.columns, key=lambda c: c.name)))


def _run(case: Case) -> OptimisticTarget:
    target = OptimisticTarget(case)
    for number, (table, action) in enumerate(case.steps):
        target.step(10 * (number + 1), table, action)
    return target


def _expected(case: Case) -> Outcome:
    return Outcome.FOLLOWS if case.outcome is Outcome.ONCE else case.outcome


@pytest.mark.parametrize("case", OPTIMISTIC_CASES, ids=lambda c: f"{c.number} {c.about}")
def test_a_case_comes_to_what_the_page_says(case: Case) -> None:
    target = _run(case)
    assert (target.outcome(), target.runs) == (_expected(case), case.runs)
    if target.outcome() is Outcome.FOLLOWS:
        assert target.unlike == []


def test_the_page_has_the_optimistic_cases() -> None:
    shown = PAGE.read_text().split(OPTIMISTIC_BEGIN)[1].split(OPTIMISTIC_END)[0].strip()
    assert shown == optimistic_table(), "python -m tests.shard_ddl.case_table writes it anew"


def test_control_a_change_that_did_not_reach_the_optimistic_target_is_seen() -> None:
    case = next(c for c in OPTIMISTIC_CASES if c.number == "046")
    target = _run(case)
    target.catalog = OptimisticTarget(case).catalog
    assert target.unlike


AGAIN = (
    *((S1, "DROP COLUMN b"), RESTART, (S1, "ADD b INT"), (S2, "DROP COLUMN b")),
    *(RESTART, (T2, "DROP COLUMN b"), RESTART),
)


def test_a_column_is_added_again_when_the_last_table_has_dropped_it() -> None:
    target = OptimisticTarget(Case("", "", AGAIN))
    seen = []
    for number, (table, action) in enumerate(AGAIN):
        target.step(10 * (number + 1), table, action)
        seen.append((target.outcome(), target.runs))
    held = (Outcome.CONFLICT, 0)
    assert seen == [(Outcome.FOLLOWS, 0)] * 2 + [held] * 3 + [(Outcome.FOLLOWS, 2)] * 2


def test_control_without_what_is_stored_it_is_added_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = Changes.of
    monkeypatch.setattr(
        Changes, "of", lambda shown: of(shown.model_copy(update={"shard_remnants": {}}))
    )
    assert _run(Case("", "", AGAIN[:3])).outcome() is Outcome.FOLLOWS


def test_a_statement_that_no_text_tells_holds_only_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unclear(*_: object, **__: object) -> list[str]:
        raise DifferenceUnclear("it is not known")

    monkeypatch.setattr(shard_join, "actions_between", unclear)
    steps = ((S1, "ADD c INT, ADD KEY x (c)"), (S2, "ADD d INT"))
    target = OptimisticTarget(Case("", "", steps))
    for number, (table, action) in enumerate(steps):
        target.step(10 * (number + 1), table, action)
    first, *others = target.group.changes.pending
    assert first.obstacle is not None
    assert first.obstacle.code == DifferenceUnclear.code
    # The join has the column of neither, so the other's own words are the difference.
    assert (others, target.runs) == ([], 1)
