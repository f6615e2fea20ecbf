"""Ten kills in CI, and the negative control that shows that they would be noticed."""

from __future__ import annotations

import pytest

from tests.soak import ddl, to_mysql
from tests.soak.plan import Plan
from tests.soak.run import soak

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]


def test_ten_kills_lose_and_repeat_nothing() -> None:
    plan = Plan(kills=10, minutes=2.5, seed=7, rows_per_s=1500)
    result = soak(plan, print)
    assert result.passed(plan), result.verdict.lines()
    assert result.kills >= 5, "too few kills in the time to show anything"


def test_without_the_ledger_messages_are_repeated() -> None:
    plan = Plan(kills=12, minutes=2.0, seed=7, rows_per_s=1500, without_ledger=True)
    result = soak(plan, print)
    assert result.passed(plan), result.verdict.lines()


def test_ten_kills_leave_the_target_equal() -> None:
    plan = Plan(kills=10, minutes=2.0, seed=22, rows_per_s=1000)
    result = to_mysql.soak(plan, print)
    assert result.passed(plan), (result.verdict.lines(), result.faults)
    assert result.kills >= 5, "too few kills in the time to show anything"


def test_a_ledger_outside_of_the_transaction_is_noticed() -> None:
    plan = Plan(kills=6, minutes=1.0, seed=7, rows_per_s=1000, without_ledger=True)
    result = to_mysql.soak(plan, print)
    assert result.passed(plan), (result.verdict.lines(), result.faults)


def test_schema_changes_of_all_kinds_go_through_while_it_is_killed() -> None:
    plan = Plan(minutes=0.7, seed=1, upstreams=("mariadb-11.4",), every_s=8.0)
    result = ddl.soak(plan, print)
    assert result.passed(plan), (result.verdict.lines(), result.faults)
    assert result.kills >= 1, "no kill in the time"


def test_tables_that_do_not_wait_at_schema_changes_are_noticed() -> None:
    plan = Plan(minutes=0.3, seed=1, upstreams=("mariadb-11.4",), without_barrier=True)
    result = ddl.soak(plan, print)
    assert result.passed(plan), result.lines
