"""What the owner does with the schema changes of a shard group, change by change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import DdlAction, DdlState, ErrorInfo
from filter.decision import DdlFilter
from owner.changes import joined
from owner.ddl import FeedScope
from sink.schema_change import Recorded
from tests.shard_ddl.group import COLUMNS, CONFIG, OPTIMISTIC, SESSION, Group


def test_a_change_runs_once_when_all_have_come_and_then_all_go_on() -> None:
    group = Group()
    group.ddl(10, "ALTER TABLE o1 ADD c INT")
    group.ddl(20, "ALTER TABLE far.o3 ADD COLUMN `c` int(11) DEFAULT NULL")
    assert group.tick() == []
    assert group.waits(10) == ["shop.o2"]
    assert group.waits(20) == ["shop.o2"]
    shown = group.changes.entries(lambda table: 19 if table == "far.o3" else 8, {})
    assert shown.shard_missing == {"all.orders": ["shop.o2"]}
    stands = {ts: (stand.table, stand.came) for ts, stand in shown.shard_stands.items()}
    assert stands == {10: ("shop.o1", False), 20: ("far.o3", True)}
    group.ddl(30, "ALTER TABLE shop.o2 ADD (c INTEGER)")
    (order,) = group.tick()
    assert (order.ddl.ts, order.replicated) == (30, (("shop", "o2"),))
    assert group.states() == dict.fromkeys((10, 20, 30), "executing")
    assert group.tick() == []
    group.done(30)
    assert group.states() == dict.fromkeys((10, 20, 30), "done")
    assert group.changes.executed == 1
    assert not group.changes.pending


def test_changes_of_a_begun_round_are_found_again_in_another_log() -> None:
    """The round is known by their ts, so their names are kept, as the ledger's own record's is."""
    group = Group()
    for ts, table in ((10, "shop.o1"), (20, "shop.o2"), (30, "far.o3")):
        assert group.changes.kept_by_ts(()) == []
        group.ddl(ts, f"ALTER TABLE {table} ADD b INT")
        group.tick()
    assert [d.ts for d in group.changes.kept_by_ts(())] == [10, 20, 30]


def test_a_table_waits_until_rows_of_all_others_have_come() -> None:
    group = Group(reached={"shop.o2": 28})
    for ts, table in ((10, "o1"), (20, "far.o3"), (30, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD c INT")
    assert group.tick() == []
    group.reached["shop.o2"] = 29
    assert [o.ddl.ts for o in group.tick()] == [30]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ADD c INT", "ADD COLUMN c int(11) NULL DEFAULT NULL", True),
        ("ADD c INT, ADD d INT", "ADD (c INT, d INT)", True),
        ("ADD INDEX i (a)", "ADD KEY i (a)", True),
        ("ADD c INT", "ADD c FLOAT", False),
        ("ADD c INT DEFAULT 0", "ADD c INT DEFAULT -1", False),
        ("ADD c INT", "ADD c INT FIRST", False),
        ("ADD c VARCHAR(5)", "ADD c VARCHAR(5) CHARACTER SET latin1", False),
        ("CHANGE a b INT", "RENAME COLUMN a TO b", True),
        ("CHANGE a b INT", "DROP COLUMN a, ADD b INT AFTER id", False),
        ("MODIFY a BIGINT", "DROP COLUMN a, ADD a BIGINT, ADD KEY k (a)", False),
        ("DROP KEY k, ADD KEY k (a, id)", "DROP KEY k, ADD KEY k (id, a)", False),
        ("ADD CONSTRAINT r CHECK (a > 0)", "ADD CONSTRAINT r CHECK (a > 5)", False),
        ("ADD CONSTRAINT r CHECK (a > 0)", "add constraint r check (a > 0)", True),
        ("COMMENT 'x'", "COMMENT = 'x'", True),
    ],
)
def test_the_effect_is_compared_and_not_the_text(one: str, other: str, same: bool) -> None:
    group = Group()
    group.ddl(10, f"ALTER TABLE o1 {one}")
    group.ddl(20, f"ALTER TABLE o2 {other}")
    group.ddl(30, f"ALTER TABLE far.o3 {one}")
    orders = group.tick()
    assert bool(orders) is same
    obstacles = [p.obstacle for p in group.changes.pending if p.obstacle]
    if same:
        assert not obstacles
        return
    (obstacle,) = obstacles
    assert obstacle.code == "TG:ErrShardDDLConflict"
    assert obstacle.object == "shop.o2"
    assert one in obstacle.message
    assert other in obstacle.message
    assert group.states() == {10: "waiting", 20: "held", 30: "waiting"}
    assert group.changes.obstructed["shop.o2"].ts == 20
    # A word that was said without having seen the conflict does not settle it.
    group.say(20, DdlAction.APPROVE)
    assert group.tick() == []
    group.say(20, DdlAction.APPROVE, obstacle.code)
    (order,) = group.tick()
    assert (order.ddl.ts, one in order.ddl.sql) == (30, True)


def test_what_an_operator_accepts_is_not_what_runs_though_it_is_the_last() -> None:
    group = Group()
    group.ddl(10, "ALTER TABLE o1 ADD c INT DEFAULT 0")
    group.ddl(20, "ALTER TABLE far.o3 ADD c INT DEFAULT 0")
    group.ddl(30, "ALTER TABLE o2 ADD c INT DEFAULT 1")
    assert group.tick() == []
    group.say(30, DdlAction.APPROVE, "TG:ErrShardDDLConflict")
    (order,) = group.tick()
    assert (order.ddl.ts, order.ddl.sql) == (30, group.log[1].sql)
    assert order.ddl.change is not None
    assert order.ddl.change.ts == 30
    group.restart({30: Recorded.EXECUTING})
    (again,) = group.tick()
    assert (again.ddl.ts, again.ddl.sql) == (30, group.log[1].sql)


def test_the_other_one_of_two_that_differ_can_be_left_out() -> None:
    group = Group()
    group.ddl(10, "ALTER TABLE o1 ADD c INT")
    group.ddl(20, "ALTER TABLE o2 ADD d INT")
    group.ddl(30, "ALTER TABLE far.o3 ADD d INT")
    group.ddl(40, "ALTER TABLE o1 DROP c")
    group.ddl(50, "ALTER TABLE o1 ADD d INT")
    assert group.tick() == []
    assert set(group.changes.obstructed) == {"shop.o2", "far.o3"}
    for ts in (10, 40):
        group.say(ts, DdlAction.SKIP)
        (order,) = group.tick()
        assert (order.ddl.ts, order.skip) == (ts, True)
        group.done(ts)
    assert [o.ddl.ts for o in group.tick()] == [50]
    assert not group.changes.obstructed


def test_several_changes_in_a_row_are_taken_one_by_one() -> None:
    group = Group()
    for ts, table in ((10, "o1"), (11, "o2"), (50, "far.o3")):
        group.ddl(ts, f"ALTER TABLE {table} COMMENT 'x'")
        # Done twice it is the same again, so nothing but the order tells them apart.
        group.ddl(ts + 2, f"ALTER TABLE {table} COMMENT 'x'")
    assert [o.ddl.ts for o in group.tick()] == [50]
    group.restart({50: Recorded.DONE}, above=10)
    assert {p.ts for p in group.changes.pending} == {12, 13, 52}
    assert group.changes.passed == {"shop.o2": 11, "far.o3": 50}
    assert [o.ddl.ts for o in group.tick()] == [52]


@pytest.mark.parametrize("known", [None, Recorded.EXECUTING, Recorded.DONE, Recorded.SKIPPED])
def test_a_round_is_found_again_whatever_the_ledger_knows(known: Recorded | None) -> None:
    group = Group()
    for ts, table in ((10, "o1"), (20, "far.o3"), (30, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD c INT")
    assert len(group.tick()) == 1
    # A table that joins with the old definition meanwhile is not of this round.
    recorded = {} if known is None else {30: known}
    group.restart(recorded)
    ended = known in (Recorded.DONE, Recorded.SKIPPED)
    assert [o.ddl.ts for o in group.tick()] == ([] if ended else [30])
    if ended:
        assert group.changes.passed == {"shop.o1": 10, "far.o3": 20, "shop.o2": 30}


def test_what_fails_for_the_world_is_tried_again_and_what_fails_for_good_can_be_left_out() -> None:
    group = Group()
    for ts, table in ((10, "o1"), (20, "far.o3"), (30, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD UNIQUE u (a)")
    assert len(group.tick()) == 1
    group.done(30, ErrorInfo(code="TG:ErrX", kind="transient", message="gone"))
    pending = tuple(replace(p, retry_ms=0) for p in group.changes.pending)
    group.changes = replace(group.changes, pending=pending)
    assert [o.ddl.ts for o in group.tick()] == [30]
    group.done(30, ErrorInfo(code="TG:ErrY", kind="definite", message="duplicate"))
    assert set(group.changes.stops) == {"shop.o2"}
    assert group.tick() == []
    group.say(30, DdlAction.SKIP)
    (order,) = group.tick()
    assert order.skip
    group.done(30)
    assert group.states() == dict.fromkeys((10, 20, 30), "skipped")


def test_a_table_joins_as_the_target_is_and_no_sooner() -> None:
    group = Group()
    group.ddl(10, "ALTER TABLE o1 ADD c INT")
    group.ddl(12, f"CREATE TABLE o4 ({COLUMNS}, c INT)")
    group.ddl(14, f"CREATE TABLE o5 ({COLUMNS})")
    group.ddl(20, "ALTER TABLE far.o3 ADD c INT")
    assert group.tick() == []
    assert group.states() == {10: "waiting", 12: "waiting", 14: "ignored", 20: "waiting"}
    assert group.waits(10) == ["shop.o2", "shop.o5"]
    group.ddl(30, "ALTER TABLE o2 ADD c INT")
    assert group.tick() == []
    group.ddl(40, "DROP TABLE o5")
    # It leaves, and what the others wait for is gone.
    assert [o.ddl.ts for o in group.tick()] == [30]
    assert group.states()[40] == "ignored"
    assert group.states()[12] == "waiting"
    group.done(30)
    assert group.tick() == []
    assert group.states()[12] == "ignored"


def test_a_change_waits_for_a_table_that_is_about_to_join() -> None:
    group = Group(reached={"shop.o4": 5})
    group.ddl(11, f"CREATE TABLE o4 ({COLUMNS})")
    for ts, table in ((20, "o1"), (30, "far.o3"), (40, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD c INT")
    assert group.tick() == []
    group.reached.clear()
    assert group.tick() == []
    assert group.waits(20) == ["shop.o4"]


def test_a_table_has_joined_where_rows_behind_that_are_delivered() -> None:
    group = Group()
    group.ddl(12, f"CREATE TABLE o4 ({COLUMNS})")
    assert group.tick() == []
    for ts, table in ((20, "o1"), (30, "far.o3"), (40, "o2"), (50, "o4")):
        group.ddl(ts, f"ALTER TABLE {table} ADD c INT")
    assert [o.ddl.ts for o in group.tick()] == [50]
    # A table of no group keeps the checkpoint below all of it.
    group.restart({50: Recorded.DONE})
    assert {p.ts for p in group.changes.pending} == {12}
    held = group.changes
    assert group.tick() == []
    assert [p.ts for p in group.changes.pending] == [12]
    group.changes = joined(held, lambda _: 50, 1)
    assert not group.changes.pending
    assert not group.changes.obstructed


def test_a_table_of_another_definition_does_not_join() -> None:
    group = Group()
    group.ddl(12, "CREATE TABLE o4 (id INT PRIMARY KEY, a BIGINT, KEY k (a))")
    assert group.tick() == []
    stop = group.changes.obstructed["shop.o4"]
    assert stop.error.code == "TG:ErrShardTablesDiffer"
    assert "bigint" in stop.error.message
    group.say(12, DdlAction.APPROVE, "TG:ErrShardTablesDiffer")
    assert group.tick() == []
    assert group.states() == {12: "ignored"}


@pytest.mark.parametrize("config", [CONFIG, OPTIMISTIC], ids=["pessimistic", "optimistic"])
def test_the_last_table_stays_until_those_that_came_before_have_joined(config: Any) -> None:
    """The target goes on as the last table was, which nothing else would say."""
    group = Group(tables=("shop.o1",))
    group.scope = FeedScope(DdlFilter(FeedConfig.model_validate(config)))
    group.ddl(10, "CREATE TABLE o2 (id INT PRIMARY KEY, a DATE, KEY k (a))")
    group.ddl(20, "DROP TABLE o1")
    group.ddl(30, "CREATE TABLE o3 (id INT PRIMARY KEY, a DATE, KEY k (a))")
    for _ in range(3):
        assert group.tick() == []
    obstacle = group.changes.obstructed["shop.o2"].error
    assert group.states()[10] == "held"
    assert group.states()[20] == "waiting"
    group.say(10, DdlAction.APPROVE, obstacle.code)
    for _ in range(3):
        assert group.tick() == []
    assert group.states() == {10: "ignored", 20: "ignored", 30: "ignored"}


def test_the_first_table_makes_the_target() -> None:
    group = Group()
    for ts, table in ((1, "o1"), (2, "o2"), (3, "far.o3")):
        group.ddl(ts, f"DROP TABLE {table}")
    group.ddl(10, f"CREATE TABLE o1 ({COLUMNS})")
    group.ddl(20, f"CREATE TABLE o2 ({COLUMNS})")
    assert group.tick() == []
    assert [o.ddl.ts for o in group.tick()] == [10]
    assert group.tick() == []
    assert group.states()[20] == "waiting"
    group.done(10)
    assert group.tick() == []
    assert group.states()[20] == "ignored"


@pytest.mark.parametrize("sql", ["CREATE DATABASE far2", "ALTER DATABASE far COMMENT 'x'"])
def test_a_change_of_a_database_stops_no_table_that_its_group_waits_for(sql: str) -> None:
    group = Group()
    group.ddl(10, "ALTER TABLE o1 ADD c INT")
    group.ddl(11, sql)
    group.ddl(12, "CREATE TABLE own.q (id INT PRIMARY KEY)")
    group.ddl(20, "ALTER TABLE o2 ADD c INT")
    group.ddl(30, "ALTER TABLE far.o3 ADD c INT")
    assert all("*" not in p.tables for p in group.changes.pending)
    orders = [o.ddl.ts for o in group.tick()]
    assert orders in ([11, 12, 30], [12, 30])


@pytest.mark.parametrize(
    "scope",
    [
        {"whole": True},
        {"ties": (("own.p", "shop.o1"), ("own.p", "shop.o2"), ("own.p", "far.o3"))},
    ],
)
def test_tables_that_must_stay_together_cannot_wait_for_each_other(scope: Any) -> None:
    group = Group()
    group.scope = replace(group.scope, **scope)
    group.ddl(10, "ALTER TABLE o1 ADD c INT")
    group.ddl(20, "ALTER TABLE o2 ADD c INT")
    assert group.tick() == []
    errors = {p.obstacle.code for p in group.changes.pending if p.obstacle}
    assert errors == {"TG:ErrShardChangeRefused"}


def test_a_sink_that_keeps_them_apart_has_each_change_at_its_place() -> None:
    group = Group()
    group.scope = replace(group.scope, apart=True)
    group.ddl(10, "ALTER TABLE o1 ADD c INT")
    group.ddl(20, "TRUNCATE TABLE o2")
    assert [o.ddl.ts for o in group.tick()] == [10, 20]


def test_held_by_an_operator_it_holds_its_group() -> None:
    group = Group()
    for ts, table in ((10, "o1"), (20, "far.o3"), (30, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD c INT")
    group.say(20, DdlAction.HOLD)
    assert group.tick() == []
    assert group.states()[20] == str(DdlState.HELD)
    group.say(20, DdlAction.APPROVE)
    assert [o.ddl.ts for o in group.tick()] == [30]


def _left_out(group: Group, *tables: str) -> None:
    """Another filter, with the next epoch."""
    rules = [*CONFIG["filter"]["rules"], *(f"!{table}" for table in tables)]
    config = FeedConfig.model_validate(CONFIG | {"filter": {"rules": rules}})
    group.scope = FeedScope(DdlFilter(config))


@pytest.mark.parametrize("known", [None, Recorded.EXECUTING, Recorded.DONE])
def test_a_begun_round_goes_on_where_another_filter_leaves_its_leader_out(
    known: Recorded | None,
) -> None:
    group = Group()
    for ts, table in ((10, "o1"), (20, "far.o3"), (30, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD c INT")
    assert len(group.tick()) == 1
    _left_out(group, "shop.o2")
    group.restart({} if known is None else {30: known})
    orders = group.tick()
    if known is Recorded.DONE:
        assert group.changes.passed == {"shop.o1": 10, "far.o3": 20}
        return
    # What the target has of a statement that was begun is known under its ts only.
    (order,) = orders
    at = 30 if known else 20
    assert (order.ddl.ts, order.replicated) == (at, (("far", "o3"),))
    assert order.ddl.change is not None
    assert order.ddl.change.ts == at
    group.done(at)
    assert not group.changes.pending
    assert group.states() == {10: "done", 20: "done"}


def test_who_carries_a_round_out_instead_of_its_leader_can_fail_and_be_left_out() -> None:
    group = Group()
    for ts, table in ((10, "o1"), (20, "far.o3"), (30, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD UNIQUE u (a)")
    assert len(group.tick()) == 1
    _left_out(group, "shop.o2")
    group.restart({30: Recorded.EXECUTING})
    assert [o.ddl.ts for o in group.tick()] == [30]
    group.done(30, ErrorInfo(code="TG:ErrY", kind="definite", message="duplicate"))
    assert set(group.changes.stops) == {"far.o3"}
    group.say(20, DdlAction.SKIP)
    (order,) = group.tick()
    assert (order.ddl.ts, order.skip) == (30, True)
    # Once more another filter, and the one that is left carries it out.
    _left_out(group, "shop.o2", "far.o3")
    group.restart({30: Recorded.EXECUTING})
    (order,) = group.tick()
    assert (order.ddl.ts, order.replicated) == (30, (("shop", "o1"),))
    group.done(30)
    assert not group.changes.pending


def test_a_leader_whose_statement_is_ignored_by_now_ends_no_change_of_others() -> None:
    group = Group()
    for ts, table in ((10, "o1"), (20, "far.o3"), (30, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD c INT")
    assert len(group.tick()) == 1
    events = [{"matcher": ["shop.o2"], "ignore_event": ["alter table"]}]
    filters = CONFIG["filter"] | {"event_filters": events}
    config = FeedConfig.model_validate(CONFIG | {"filter": filters})
    group.scope = FeedScope(DdlFilter(config))
    group.restart({30: Recorded.EXECUTING})
    (order,) = group.tick()
    assert (order.ddl.ts, order.replicated) == (30, (("far", "o3"),))
    assert group.states() == {10: "executing", 20: "executing", 30: "ignored"}
    group.done(30)
    assert not group.changes.pending


def test_a_table_that_gets_another_name_comes_with_what_it_had_before() -> None:
    group = Group()
    group.ddl(10, "ALTER TABLE o1 ADD c INT")
    group.ddl(12, "RENAME TABLE o1 TO o9")
    group.ddl(14, "ALTER TABLE o9 ADD d INT")
    for ts, table in ((20, "far.o3"), (30, "o2")):
        group.ddl(ts, f"ALTER TABLE {table} ADD c INT")
        group.ddl(ts + 2, f"ALTER TABLE {table} ADD d INT")
    assert [o.ddl.ts for o in group.tick()] == [30]
    group.done(30)
    assert group.tick() == []
    assert [o.ddl.ts for o in group.tick()] == [32]
    assert group.states()[12] == "ignored"


def test_a_new_table_is_compared_with_one_that_is_about_to_get_another_name_or_to_go() -> None:
    for last in ("RENAME TABLE o1 TO o9", "DROP TABLE o1"):
        group = Group(tables=("shop.o1",), reached={"shop.o1": 5})
        group.ddl(10, "CREATE TABLE o4 (id INT PRIMARY KEY, a INT, c INT, KEY k (a))")
        group.ddl(12, last)
        assert group.tick() == []
        assert group.states() == {10: "held", 12: "waiting"}


def test_a_table_of_an_older_definition_shows_why_it_waits_though_it_is_changed_later() -> None:
    group = Group(columns=f"{COLUMNS}, c INT")
    group.ddl(12, f"CREATE TABLE o4 ({COLUMNS})")
    group.ddl(14, "ALTER TABLE o4 ADD c INT")
    group.ddl(16, "ALTER TABLE o1 ADD d INT")
    assert group.tick() == []
    assert group.changes.obstructed["shop.o4"].error.code == "TG:ErrShardTablesDiffer"
    assert group.states() == {12: "held", 14: "waiting", 16: "waiting"}
    group.say(12, DdlAction.APPROVE, "TG:ErrShardTablesDiffer")
    group.say(14, DdlAction.SKIP)
    assert group.tick() == []
    assert [(o.ddl.ts, o.skip) for o in group.tick()] == [(14, True)]
    group.done(14)
    for ts, table in ((20, "far.o3"), (30, "o2"), (40, "o4")):
        group.ddl(ts, f"ALTER TABLE {table} ADD d INT")
    assert [o.ddl.ts for o in group.tick()] == [40]


@pytest.mark.parametrize("apart", [False, True])
def test_tables_of_a_node_that_leaves_are_not_waited_for_and_stay_at_the_target(
    apart: bool,
) -> None:
    group = Group(tables=("n1:shop .o1", "n2:shop .o1"), databases=("n1:shop ", "n2:shop "))
    group.scope = replace(group.scope, apart=apart)
    if not apart:
        group.ddl(10, "ALTER TABLE `n1:shop `.o1 ADD c INT")
        assert group.tick() == []
    # As cdc.source.membership has it: no session of a server, and the name that the log has.
    group.ddl(20, "DROP DATABASE `n2:shop `")
    orders = [o.ddl.ts for o in group.tick()]
    assert orders == ([] if apart else [10])
    assert group.states()[20] == "ignored"
    # The control: a server's own statement.
    group = Group(tables=("n1:shop .o1", "n2:shop .p"), databases=("n1:shop ", "n2:shop "))
    group.scope = replace(group.scope, apart=True)
    group.ddl(20, "DROP DATABASE shop", replace(SESSION, default_schema="", node="n2"))
    assert [o.ddl.ts for o in group.tick()] == [20]


def test_a_name_that_rows_have_columns_of_is_not_changed() -> None:
    (rule,) = CONFIG["sink"]["dispatchers"]
    extract = {"table-regexp": "(.)$", "target-column": "c_table"}
    config = CONFIG | {"sink": {"dispatchers": [rule | {"extract-table": extract}]}}
    group = Group(scope=FeedScope(DdlFilter(FeedConfig.model_validate(config))))
    group.ddl(10, "RENAME TABLE o1 TO o9")
    (p,) = group.changes.pending
    assert p.judged.error is not None
    assert p.judged.error.code == "TG:ErrShardChangeRefused"
