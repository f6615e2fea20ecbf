"""filter.rules: the last match wins, and system schemas never pass."""

from __future__ import annotations

import pytest

from cdc.base.errors import InvalidError
from filter.rules import TableRules


@pytest.mark.parametrize(
    ("rules", "table", "passes"),
    [
        (["*.*"], ("shop", "orders"), True),
        (["*.*"], ("mysql", "user"), False),
        (["mysql.*"], ("mysql", "user"), False),
        (["*.*"], ("tidegate", "ledger"), False),
        (["shop.*", "!shop.tmp_*"], ("shop", "tmp_1"), False),
        (["!shop.tmp_*", "shop.*"], ("shop", "tmp_1"), True),
        (["shop.*"], ("other", "orders"), False),
        (["SHOP.*"], ("shop", "orders"), True),
        (["/^sh.p$/.order?"], ("shop", "orders"), True),
    ],
)
def test_rules(rules: list[str], table: tuple[str, str], passes: bool) -> None:
    assert TableRules(rules).matches(*table) is passes


def test_case_matters_when_asked_for() -> None:
    assert not TableRules(["SHOP.*"], case_sensitive=True).matches("shop", "orders")


def test_a_bad_rule_is_refused_by_name() -> None:
    with pytest.raises(InvalidError) as e:
        TableRules(["shop"])
    assert e.value.code == "TG:ErrFilterRuleInvalid"
    assert e.value.hint
