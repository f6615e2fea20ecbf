"""DM's cases: what each comes to here, with the statements as the target is given them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from owner.ddl import DDLAction
from sink.dispatch.shards import difference
from sink.mysql.ddl.rewrite import rewrite
from sink.schema_change import Recorded
from tests.shard_ddl.case_table import BEGIN, END, PAGE
from tests.shard_ddl.case_table import table as made_table
from tests.shard_ddl.cases import CASES, RESTART, SHARDS, Case, Outcome
from tests.shard_ddl.group import SESSION, Group
from tests.sink_mysql_ddl.test_rewrite import TO_MARIADB


class Target:
    """The target's schema, which has what the MySQL sink would make of each change."""

    def __init__(self, case: Case) -> None:
        self.catalog, self.runs = Catalog(), 0
        self.group = Group(tables=SHARDS, columns=case.columns)
        self.names = self.group.scope.filter.targets
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
        # What ends lets the next come to its place.
        for _ in range(6):
            for order in self.group.tick():
                change = order.ddl.change
                assert change is not None
                change = replace(change, replicated=order.replicated)
                made = rewrite(change, TO_MARIADB, lambda s, t: self.names.target(s, t))
                for sql in made.statements:
                    self.catalog = apply(self.catalog, read_ddl(sql, SESSION))
                self.runs += 1
                self.recorded[order.ddl.ts] = Recorded.DONE
                self.group.done(order.ddl.ts)

    @property
    def unlike(self) -> list[str]:
        """In what tables of the group differ from the target."""
        made, found = self.catalog.table("all", "orders"), []
        assert made is not None
        for name in self.group.catalog:
            if name[0] in ("shop", "far") and (one := self.group.catalog.table(*name)) is not None:
                found.append(difference(made, one))
        return [what for what in found if what]

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
        return Outcome.ONCE if self.runs else Outcome.NOTHING


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.number)
def test_a_case_comes_to_what_the_page_says(case: Case) -> None:
    target = Target(case)
    for number, (table, action) in enumerate(case.steps):
        target.step(10 * (number + 1), table, action)
        if target.outcome() is Outcome.ONCE:
            assert target.unlike == []
    assert (target.outcome(), target.runs) == (case.outcome, case.runs)


def test_the_page_has_these_cases() -> None:
    shown = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()
    assert shown == made_table(), "python -m tests.shard_ddl.case_table writes it anew"


def test_control_a_change_that_did_not_reach_the_target_is_seen() -> None:
    target = Target(CASES[0])
    before = target.catalog
    for number, (table, action) in enumerate(CASES[0].steps):
        target.step(10 * (number + 1), table, action)
    target.catalog = before
    assert target.unlike
