"""Table patterns: the examples of TiDB's documentation and their edges."""

from __future__ import annotations

import pytest

from cdc.base.matcher import FilterRuleInvalid, parse_matcher, parse_rule


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [
        ("*.*", [("a", "b"), ("", "x.y"), ("a\nb", "c")], []),
        ("db1.*", [("db1", "t"), ("DB1", "T")], [("db10", "t"), ("xdb1", "t")]),
        ("*.t?", [("a", "t1"), ("a", "té")], [("a", "t"), ("a", "t12")]),
        ("a.[a-c]*", [("a", "bx"), ("a", "c")], [("a", "d"), ("a", "")]),
        ("a.[!a-c]x", [("a", "dx")], [("a", "ax")]),
        ("a.x[0-9][!_]", [("a", "x1y")], [("a", "x1_"), ("a", "xx1")]),
        ("/^db\\d{2,}$/./^tbl\\d{2,}$/", [("db01", "tbl22")], [("db1", "tbl22")]),
        ("/b/.*", [("abc", "t")], [("ac", "t")]),
        ("a./x\\/y/", [("a", "x/y")], [("a", "x_y")]),
        ("`a.b`.`c``d`", [("a.b", "c`d")], [("a", "b")]),
        ('"w*"."?"', [("w*", "?")], [("wx", "y")]),
        ("a\\.b.c\\*", [("a.b", "c*")], [("a.b", "cd")]),
        ("pre`a.`*.t", [("prea.x", "t")], [("prea", "t")]),
        ("数据.表*", [("数据", "表1")], [("数", "表1")]),
        ("a-b.c$d", [("a-b", "c$d")], [("a-b", "cd")]),
    ],
)
def test_rule_matches(rule: str, yes: list[tuple[str, str]], no: list[tuple[str, str]]) -> None:
    compiled = parse_rule(rule)
    assert compiled.positive
    for schema, table in yes:
        assert compiled.applies(schema, table), (schema, table)
    for schema, table in no:
        assert not compiled.applies(schema, table), (schema, table)


def test_last_match_wins() -> None:
    matcher = parse_matcher(["*.*", "!a.*", "a.keep"])
    assert matcher.matches("b", "x")
    assert not matcher.matches("a", "x")
    assert matcher.matches("a", "keep")
    assert not parse_matcher(["a.*"]).matches("b", "x")
    assert not parse_matcher([]).matches("a", "x")


def test_schema_match() -> None:
    assert parse_matcher(["a.x", "!a.x"]).matches_schema("a")
    assert not parse_matcher(["*.*", "!a.*"]).matches_schema("a")
    assert not parse_matcher(["b.*"]).matches_schema("a")


def test_case_sensitivity() -> None:
    assert parse_rule("Ab.Cd").applies("aB", "cD")
    strict = parse_rule("Ab.Cd", case_sensitive=True)
    assert strict.applies("Ab", "Cd")
    assert not strict.applies("ab", "cd")
    assert not parse_rule("/A/.*", case_sensitive=True).applies("a", "x")


@pytest.mark.parametrize(
    "rule",
    [
        *["", "!", "a", "a.", ".b", "a.b.c", "a.b c", "a b.c", "/a.b", "//.b", "a./(/", "`a.b"],
        *["``.b", "a.[", "a.[]", "a.[!]", "a.[z-a]", "a.\\", "a\\b.c", "a.b`c", "@file"],
        *["a.{b}", "a,b.c"],
    ],
)
def test_bad_rule_is_named(rule: str) -> None:
    with pytest.raises(FilterRuleInvalid) as caught:
        parse_rule(rule)
    assert caught.value.hint
    assert repr(rule) in caught.value.message
