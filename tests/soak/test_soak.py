"""A few kills in CI, more of them, and the negative controls: each shows that a fault is noticed.

Every run has a seed of its own, which it prints; ``SEED`` gives it again.
"""

from __future__ import annotations

import pytest

from tests.soak import cluster, cluster_db, ddl, shards, snapshots, to_mysql
from tests.soak.plan import Control, Plan, Result
from tests.soak.run import soak

pytestmark = [pytest.mark.real, pytest.mark.slow]


def _shown(plan: Plan, result: Result) -> str:
    """What a failure must tell."""
    faults = [str(fault) for fault in result.faults]
    seen = sorted(result.kinds())
    return f"SEED={plan.seed}: {seen} {faults} {result.verdict.lines()} {result.lines}"


def test_kills_of_each_kind_lose_and_repeat_nothing() -> None:
    plan = Plan(kills=7, rows_per_s=300)
    result = soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


def test_a_distributed_database_is_whole_whatever_is_lost_of_it() -> None:
    plan = Plan(minutes=5.0, rows_per_s=500)
    result = cluster_db.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
def test_without_the_ledger_messages_are_repeated() -> None:
    plan = Plan(kills=6, minutes=1.0, rows_per_s=1500, control=Control.LEDGER)
    result = soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
def test_rows_that_the_ledger_runs_ahead_of_are_missed() -> None:
    plan = Plan(kills=1, minutes=0.5, rows_per_s=1500, control=Control.ROWS)
    result = soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.soak
def test_owners_of_a_cluster_are_lost_with_and_without_their_disks() -> None:
    plan = Plan(kills=2, rows_per_s=400, only="owner lost")
    result = cluster.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
def test_what_a_frozen_host_commits_when_it_wakes_is_noticed() -> None:
    plan = Plan(kills=6, only="host frozen", control=Control.EPOCH)
    result = cluster.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
def test_what_is_decided_by_who_was_replaced_is_noticed() -> None:
    plan = Plan(kills=6, only="owner frozen", control=Control.GUARD)
    result = cluster.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.soak
def test_kills_of_each_kind_leave_a_target_of_the_other_family_equal() -> None:
    plan = Plan(kills=7, rows_per_s=400, server="mysql-8.0", target="mariadb-11.4")
    result = to_mysql.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
def test_a_ledger_outside_of_the_transaction_is_noticed() -> None:
    plan = Plan(kills=6, minutes=1.0, rows_per_s=1000, control=Control.LEDGER)
    result = to_mysql.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
def test_transactions_that_are_not_kept_whole_are_seen_by_the_bank() -> None:
    plan = Plan(kills=1, minutes=0.5, rows_per_s=500, control=Control.ATOMICITY)
    result = to_mysql.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
def test_a_password_in_an_answer_is_noticed() -> None:
    plan = Plan(kills=1, minutes=0.5, rows_per_s=500, control=Control.MASK)
    result = to_mysql.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.soak
def test_schema_changes_of_all_kinds_go_through_while_it_is_killed() -> None:
    plan = Plan(minutes=0.7, upstreams=("mariadb-11.4",), every_s=8.0)
    result = ddl.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)
    assert result.kills >= 1, "no kill in the time"


@pytest.mark.control
def test_tables_that_do_not_wait_at_schema_changes_are_noticed() -> None:
    plan = Plan(minutes=0.3, upstreams=("mariadb-11.4",), control=Control.BARRIER)
    result = ddl.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
@pytest.mark.parametrize("control", [Control.SORT, Control.HOLES, Control.PART, Control.HEARTBEAT])
def test_an_order_of_nodes_that_is_not_kept_is_noticed(control: Control) -> None:
    plan = Plan(minutes=1.0, rows_per_s=1000, control=control)
    result = cluster_db.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
@pytest.mark.parametrize("control", [Control.TOUCHED, Control.PLACE])
def test_rows_that_are_not_as_they_are_where_they_come_are_noticed(control: Control) -> None:
    plan = Plan(kills=1, control=control)
    result = snapshots.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)


@pytest.mark.control
def test_tables_of_a_shard_group_that_do_not_wait_are_noticed() -> None:
    plan = Plan(kills=0, minutes=0.3, control=Control.BARRIER)
    result = shards.soak(plan, print)
    assert result.passed(plan), _shown(plan, result)
