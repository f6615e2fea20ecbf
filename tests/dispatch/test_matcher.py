"""Table patterns: the examples of TiDB's documentation and their edges."""

from __future__ import annotations

from fnmatch import fnmatchcase
from random import Random

import pytest

from cdc.base.matcher import FilterRuleInvalid, parse_matcher, parse_rule
from cdc.base.nodes import node_of, plain, qualified


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


@pytest.mark.parametrize("seed", range(20))
def test_one_name_or_many_the_answer_is_that_of_fnmatch(seed: int) -> None:
    random = Random(seed)

    def pattern() -> str:
        return "".join(random.choice("ab*?*[ab]x".replace("[ab]", "c")) for _ in range(5)) or "*"

    def part() -> str:
        return pattern() + random.choice(["", "[a-b]", "[!a]*"])

    rules = [random.choice(["", "!"]) + f"{part()}.{part()}" for _ in range(12)]
    words = ["".join(random.choices("abcx", k=random.randrange(8))) for _ in range(300)]
    names = [(random.choice(words[:20]), word) for word in words]
    matcher = parse_matcher(rules)
    expected = []
    for schema, table in names:
        positive = False
        for rule in rules:
            left, right = rule.removeprefix("!").split(".")
            if fnmatchcase(schema, left) and fnmatchcase(table, right):
                positive = not rule.startswith("!")
        expected.append(positive)
    assert list(matcher.matches_all(names)) == expected
    assert [matcher.matches(*name) for name in names] == expected


def test_many_names_by_regular_expression_and_case() -> None:
    matcher = parse_matcher(["/^Shop/.*", "!*./tmp\\d$/"])
    names = [("SHOP_1", "a"), ("shop", "x_TMP1"), ("shop", "tmp"), ("eshop", "a")]
    assert list(matcher.matches_all(names)) == [True, False, True, False]
    assert list(parse_matcher(["/^Shop/.*"], case_sensitive=True).matches_all(names)) == [False] * 4
    assert not len(parse_matcher(["*.*"]).matches_all([]))


def test_no_pattern_takes_forever() -> None:
    stars = "*a" * 20
    assert not parse_rule(f"{stars}b.*").applies("a" * 64, "x")
    assert not parse_rule("/(a+)+(a+)+(a+)+$/.*").applies("a" * 64 + "b", "x")


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
        *[
            "a./(?=x)/",
            "a./x{2000}/",
            "``.b",
            "a.[",
            "a.[]",
            "a.[!]",
            "a.[z-a]",
            "a.\\",
            "a\\b.c",
            "a.b`c",
            "@file",
        ],
        *["a.{b}", "a,b.c"],
    ],
)
def test_bad_rule_is_named(rule: str) -> None:
    with pytest.raises(FilterRuleInvalid) as caught:
        parse_rule(rule)
    assert caught.value.hint
    assert repr(rule) in caught.value.message


ALL = ("n1", "n2", "other", "")
NODES = [
    (qualified(node, schema), table)
    for node in ("n1", "n2", "other")
    for schema in ("shop", "crm", "n1")
    for table in ("t", "u")
] + [("shop", "t"), ("n1", "t"), ("n1:shop", "t")]


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        (["shop.t"], ["n1:shop.t", "n2:shop.t", "other:shop.t", ":shop.t"]),
        (["n1:shop.*"], ["n1:shop.t", "n1:shop.u"]),
        (["n*:shop.t"], ["n1:shop.t", "n2:shop.t"]),
        (["/^(n2|other)$/:crm.t"], ["n2:crm.t", "other:crm.t"]),
        (["shop.*", "!n?:shop.u"], [*(f"{n}:shop.t" for n in ALL), "other:shop.u"]),
        (["n1.t"], ["n1:n1.t", "n2:n1.t", "other:n1.t", ":n1.t"]),
        (["*:*.u", "!N1:*.*"], [f"{n}:{s}.u" for n in ALL[1:3] for s in ("shop", "crm", "n1")]),
        (["`n1:shop`.t"], [":n1:shop.t"]),
    ],
)
def test_a_rule_is_about_plain_names_and_perhaps_about_nodes(
    rules: list[str], wanted: list[str]
) -> None:
    matcher = parse_matcher(rules)
    names = {n: f"{node_of(n[0])}:{plain(n[0])}.{n[1]}" for n in NODES}
    assert sorted(text for n, text in names.items() if matcher.matches(*n)) == sorted(wanted)
    many = matcher.matches_all(NODES)
    assert [bool(yes) for yes in many] == [matcher.matches(*n) for n in NODES]
    for schema in {n[0] for n in NODES}:
        assert matcher.matches_schema(schema) or not any(
            matcher.matches(*n) for n in NODES if n[0] == schema
        )


@pytest.mark.parametrize("rule", ["n1:shop", "n1:shop:x.t", ":shop.t", "n1:.t", "shop.n1:t"])
def test_a_node_in_the_wrong_place_is_refused(rule: str) -> None:
    with pytest.raises(FilterRuleInvalid) as e:
        parse_matcher([rule])
    assert e.value.position
