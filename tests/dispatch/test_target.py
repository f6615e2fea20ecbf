"""Routing to other names: TiCDC's documented examples, conflicts, whole databases."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.base.errors import InvalidError
from cdc.base.nodes import qualified
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import RouteConflict, RoutingFailed, TargetRouter, Targets


def router(
    *rules: dict[str, Any], case_sensitive: bool = False, merging: bool = False
) -> TargetRouter:
    settings = [DispatcherSettings.model_validate(rule) for rule in rules]
    return TargetRouter.of(settings, case_sensitive=case_sensitive, merging=merging)


@pytest.mark.parametrize(
    ("rule", "target"),
    [
        ({"target-schema": "archive"}, ("archive", "orders")),
        ({"target-table": "{table}_bak"}, ("sales", "orders_bak")),
        ({"target-schema": "{schema}_mirror"}, ("sales_mirror", "orders")),
        (
            {"target-schema": "archive", "target-table": "{schema}_{table}"},
            ("archive", "sales_orders"),
        ),
        ({"topic": "t"}, ("sales", "orders")),
    ],
)
def test_documented_placeholders(rule: dict[str, Any], target: tuple[str, str]) -> None:
    assert router({"matcher": ["sales.orders"], **rule}).target("sales", "orders") == target


def test_the_first_rule_with_a_target_wins() -> None:
    found = router(
        {"matcher": ["sales.*"], "partition": "ts"},
        {"matcher": ["sales.*", "!sales.tmp_*"], "target-schema": "archive"},
        {"matcher": ["sales.*"], "target-schema": "other"},
    )
    assert found.target("sales", "Orders") == ("archive", "Orders")
    assert found.target("sales", "tmp_1") == ("other", "tmp_1")
    assert found.target("SALES", "x") == ("archive", "x")
    assert found.target("crm", "x") == ("crm", "x")
    assert [found.rule("sales", t) for t in ("orders", "tmp_1")] == [1, 2]
    assert found.rule("crm", "x") == -1


def test_case_decides_about_the_matcher_only() -> None:
    rule = {"matcher": ["Sales.*"], "target-table": "{table}_X"}
    assert router(rule).target("sales", "oRders") == ("sales", "oRders_X")
    assert router(rule, case_sensitive=True).target("sales", "t") == ("sales", "t")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("target-schema", "{db}"),
        ("target-table", "{schema"),
        ("target-table", "a}b"),
        ("target-schema", "{Schema}"),
        ("target-table", "{{table}}"),
    ],
)
def test_unknown_placeholders_are_refused(key: str, text: str) -> None:
    with pytest.raises(InvalidError) as e:
        router({"matcher": ["a.*"]}, {"matcher": ["a.*"], key: text})
    assert e.value.code == "TG:ErrInvalidTableRoutingRule"
    assert e.value.object == f"sink.dispatchers[1].{key}"
    assert e.value.hint


def test_a_wrong_matcher_is_a_wrong_rule() -> None:
    with pytest.raises(InvalidError) as e:
        router({"matcher": ["[invalid"], "target-schema": "x"})
    assert e.value.code == "TG:ErrInvalidTableRoutingRule"


def test_names_that_no_server_takes() -> None:
    found = router({"matcher": ["*.*"], "target-table": "{schema}_{table}"})
    assert len(found.target("a" * 32, "b" * 31)[1]) == 64
    with pytest.raises(RoutingFailed):
        found.target("a" * 32, "b" * 32)


MERGED = [
    {"matcher": ["sales.*"], "target-schema": "archive", "target-table": "{table}"},
    {"matcher": ["crm.*"], "target-schema": "archive", "target-table": "{table}"},
]


def test_two_tables_into_one_are_refused() -> None:
    found = router(*MERGED)
    found.check([("sales", "orders"), ("crm", "people")])
    with pytest.raises(RouteConflict) as e:
        found.check([("sales", "orders"), ("crm", "orders")])
    assert e.value.object == "crm.orders"
    assert "sales.orders" in e.value.message
    assert "archive.orders" in e.value.message
    with pytest.raises(RouteConflict):
        found.check([("sales", "orders"), ("archive", "orders")])
    router({**MERGED[0], "target-table": "{schema}_{table}"}).check([("sales", "a"), ("crm", "a")])


def test_conflicts_come_and_go_with_changes() -> None:
    state = Targets(router(*MERGED)).add(("sales", "a"), ("crm", "b"))
    with pytest.raises(RouteConflict):
        state.add(("crm", "a"))
    with pytest.raises(RouteConflict):
        state.rename([(("crm", "b"), ("crm", "a"))])
    state = state.drop(("sales", "a")).add(("crm", "a"))
    state = state.rename([(("crm", "a"), ("x", "a")), (("crm", "b"), ("crm", "a"))])
    assert state.holders == {
        ("x", "a"): frozenset({("x", "a")}),
        ("archive", "a"): frozenset({("crm", "a")}),
    }


def test_names_may_be_swapped() -> None:
    state = Targets(router(*MERGED)).add(("sales", "a"), ("sales", "b"))
    steps = [(("sales", "a"), ("sales", "c")), (("sales", "b"), ("sales", "a"))]
    swapped = state.rename([*steps, (("sales", "c"), ("sales", "b"))])
    assert set().union(*swapped.holders.values()) == {("sales", "a"), ("sales", "b")}


def test_with_a_shard_mode_several_become_one() -> None:
    found = router(*MERGED, merging=True)
    tables = [("sales", "a"), ("crm", "a"), ("crm", "b")]
    found.check(tables)
    assert found.groups(tables) == {("archive", "a"): tables[:2], ("archive", "b"): tables[2:]}
    state = Targets(found).add(*tables)
    assert state.holders["archive", "a"] == {("sales", "a"), ("crm", "a")}
    state = state.rename([(("crm", "a"), ("crm", "b2"))])
    assert state.holders["archive", "a"] == {("sales", "a")}
    assert ("archive", "a") not in state.drop(("sales", "a")).holders


def test_tables_of_nodes_have_their_plain_names_at_the_target() -> None:
    first, second = qualified("n1", "shop"), qualified("n2", "shop")
    assert TargetRouter().target(first, "t") == ("shop", "t")
    assert TargetRouter().target_schema(first) == "shop"
    with pytest.raises(RouteConflict) as e:
        TargetRouter().check([(first, "t"), (second, "t")])
    assert e.value.object == f"{second}.t"
    apart = router({"matcher": ["shop.*"], "target-table": "{table}_{node}"})
    assert apart.target(second, "t") == ("shop", "t_n2")
    apart.check([(first, "t"), (second, "t")])
    one = router({"matcher": ["n1:shop.*"], "target-schema": "{node}_{schema}"})
    assert one.target(first, "t") == ("n1_shop", "t")
    assert one.target(second, "t") == ("shop", "t")
    assert one.target_schema(first) == "n1_shop"
    assert one.target_schema(second) == "shop"


def test_a_database_needs_one_target() -> None:
    found = router(*MERGED)
    assert found.target_schema("sales") == "archive"
    assert found.target_schema("hr") == "hr"
    assert router({"matcher": ["a.*"], "target-table": "x"}).target_schema("a") == "a"
    for second in ({"target-schema": "other"}, {"target-table": "y"}):
        split = router(MERGED[0], {"matcher": ["sales.b"], **second})
        with pytest.raises(RoutingFailed):
            split.target_schema("sales")
    with pytest.raises(RoutingFailed):
        router({"matcher": ["a.*"], "target-schema": "x_{table}"}).target_schema("a")
