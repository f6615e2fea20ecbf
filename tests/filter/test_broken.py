"""Broken configurations: each is refused with its code, its place and one hint."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.base.errors import InvalidError
from owner.replica_config import check

Case = tuple[dict[str, Any], str, str]

# Rules about tables, wherever they stand.
RULES = [
    *("shop", "shop.", ".orders", "a.b.c", "a b.c", "a.b c", "a,b.c", "a.{b}", "a.b;", "a|b.c"),
    *("/a.b", "//.b", "a./(/", "a./[/", "a./(?=x)/", "a./x{9999}/", "a./(?P<n/", "a.//", "!", "! "),
    *("`a.b", "``.b", '"a.b', '"".b', "a.[", "a.[]", "a.[!]", "a.[z-a]", "a.\\", "a\\b.c", "a.b`c"),
    *("@rules.txt", "a.b@", "a..b", "!!a.b", "a.(b)", "a.b+", "a:b", "a=b.c", "<a>.b"),
]
EVENTS = [
    *("", "inserts", "upsert", "all", "none", "alter", "add colum", "drop columns", "create"),
    *("create tables", "truncate", "rename", "add index", "modify columns", "ddl", "dml", "*"),
]
REGEXES = [
    *("(", ")", "[", "a{2,1}", "*", "+a", "?", "a**", "(?=x)", "(?!x)", "(?<=x)", "(?<!x)", "\\"),
    *("(a)\\1", "x{1001}", "[z-a]", "(?P<a", "(?z)", "\\8", "[[:nope:]]"),
]
GTIDS = [
    *("", "0", "0-1", "0-1-", "0-1-2-3", "-1-2", "4294967296-1-1", "0-1-x", "x:1", "0-1-1,0-1-2"),
    "3e11fa47-71ca-11e1-9e33-c80aa9429562",
    "3e11fa47-71ca-11e1-9e33-c80aa9429562:",
    "3e11fa47-71ca-11e1-9e33-c80aa9429562:0",
    "3e11fa47-71ca-11e1-9e33-c80aa9429562:5-3",
    "3e11fa47-71ca-11e1-9e33-c80aa942956:1",
]
TOPICS = [
    "{table}{schema}",
    "a b",
    "{db}",
    "{schema",
    "a/b",
    "ä",
    "{schema}{schema}",
    "a:b",
    "{ schema }",
]
TARGETS = ["{db}", "{schema", "table}", "{Schema}", "{{table}}", "{}", "{table }"]
NAMES = ["a b", "a.b", "", "!", "[", "/(/", "`a", "a,b", "x{1}"]


def _event(**rule: Any) -> dict[str, Any]:
    return {"filter": {"event-filters": [{"matcher": ["a.*"]}, {"matcher": ["a.*"], **rule}]}}


def _dispatch(**rule: Any) -> dict[str, Any]:
    fields = {k.replace("_", "-"): v for k, v in rule.items()}
    return {"sink": {"dispatchers": [{"matcher": ["a.*"], **fields}]}}


def _rules() -> list[Case]:
    found: list[Case] = []
    code = "TG:ErrFilterRuleInvalid"
    for rule in RULES:
        found.append(({"filter": {"rules": ["*.*", rule]}}, code, "filter.rules[1]"))
        place = "filter.event-filters[1].matcher[1]"
        found.append((_event(matcher=["a.b", rule]), code, place))
    for rule in RULES[:20]:
        found.append((_dispatch(matcher=[rule]), code, "sink.dispatchers[0].matcher"))
        selector = {"matcher": [rule], "columns": ["*"]}
        place = "sink.column-selectors[0].matcher"
        found.append(({"sink": {"column-selectors": [selector]}}, code, place))
    return found


def _values() -> list[Case]:
    at = "filter.event-filters[1]"
    found: list[Case] = [
        (_event(ignore_event=["insert", e]), "TG:ErrInvalidIgnoreEventType", f"{at}.ignore-event")
        for e in EVENTS
    ]
    found += [
        (_event(ignore_sql=["ok", r]), "TG:ErrIgnoreSQLInvalid", f"{at}.ignore-sql[1]")
        for r in REGEXES
    ]
    txn = "TG:ErrIgnoreTxnInvalid"
    for gtid in GTIDS:
        place = "filter.ignore-txn-gtid[0]"
        found.append(({"filter": {"ignore-txn-gtid": [gtid]}}, txn, place))
    for ts in (0, -1, 1 << 63):
        place = "filter.ignore-txn-start-ts[1]"
        found.append(({"filter": {"ignore-txn-start-ts": [7, ts]}}, txn, place))
    return found


def _sinks() -> list[Case]:
    at, bad = "sink.dispatchers[0]", "TG:ErrDispatcherInvalid"
    found = [(_dispatch(topic=t), "TG:ErrTopicExpressionInvalid", f"{at}.topic") for t in TOPICS]
    for key in ("target_schema", "target_table"):
        place = f"{at}.{key.replace('_', '-')}"
        found += [(_dispatch(**{key: t}), "TG:ErrInvalidTableRoutingRule", place) for t in TARGETS]
    for rule in (
        {"partition": "ts", "dispatcher": "ts"},
        {"partition": "random"},
        {"columns": ["a"]},
        {"partition": "columns"},
        {"partition": "columns", "columns": [""]},
        {"partition": "ts", "columns": ["a"]},
        {"partition": "ts", "index": "i"},
        {"index": "i"},
    ):
        found.append((_dispatch(**rule), bad, at))
    for key, value in (
        ("matcher", []),
        ("matcher", "a.*"),
        ("partition", 3),
        ("index", []),
        ("topic", {}),
        ("columns", "id"),
        ("partitions", "ts"),
        ("matchers", ["a.*"]),
        ("target", "x"),
    ):
        found.append((_dispatch(**{key: value}), bad, f"{at}.{key}"))
    for value in (3, "a.*", {"matcher": ["a.*"]}):
        found.append(({"sink": {"dispatchers": value}}, bad, "sink.dispatchers"))
        found.append(({"sink": {"column_selectors": value}}, bad, "sink.column-selectors"))
    found.append(({"sink": {"dispatchers": [3]}}, bad, "sink.dispatchers[0]"))
    for name in NAMES:
        selector = {"matcher": ["a.*"], "columns": ["*", name]}
        place = "sink.column-selectors[0].columns"
        given = {"sink": {"column-selectors": [selector]}}
        found.append((given, "TG:ErrFilterRuleInvalid", place))
    for selector, place in (
        ({"matcher": ["a.*"]}, "columns"),
        ({"columns": ["*"]}, "matcher"),
        ({"matcher": ["a.*"], "columns": []}, "columns"),
        ({"matcher": ["a.*"], "columns": ["*"], "column": 1}, "column"),
    ):
        given = {"sink": {"column-selectors": [selector]}}
        found.append((given, bad, f"sink.column-selectors[0].{place}"))
    return found


def _keys() -> list[Case]:
    found: list[Case] = []
    for key in ("rule", "table-rules", "ignore-dbs", "ignore_txn_commit_ts", "event_filter"):
        place = f"filter.{key.replace('_', '-')}"
        found.append(({"filter": {key: []}}, "TG:ErrConfigUnknownKey", place))
    for key in ("matchers", "ignore-events", "ignore_sqls", "ignore-insert-expr", "action"):
        place = f"filter.event-filters[1].{key.replace('_', '-')}"
        found.append((_event(**{key: "x"}), "TG:ErrConfigUnknownKey", place))
    for key in ("filters", "sinks", "case-sensitiv", "force-replicated", "ddl-policies"):
        found.append(({key: 1}, "TG:ErrConfigUnknownKey", key))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"filter": 3}, "filter"),
        ({"filter": {"rules": "a.*"}}, "filter.rules"),
        ({"filter": {"rules": ["a.*", 3]}}, "filter.rules[1]"),
        ({"filter": {"rules": {"a": 1}}}, "filter.rules"),
        ({"filter": {"event-filters": {}}}, "filter.event-filters"),
        ({"filter": {"event-filters": [3]}}, "filter.event-filters[0]"),
        ({"filter": {"event-filters": [{}]}}, "filter.event-filters[0].matcher"),
        (_event(matcher=[]), "filter.event-filters[1].matcher"),
        (_event(matcher="a.*"), "filter.event-filters[1].matcher"),
        (_event(ignore_event="insert"), "filter.event-filters[1].ignore-event"),
        (_event(ignore_event=[1]), "filter.event-filters[1].ignore-event[0]"),
        (_event(ignore_sql="^drop"), "filter.event-filters[1].ignore-sql"),
        (_event(ignore_insert_value_expr=1), "filter.event-filters[1].ignore-insert-value-expr"),
        (_event(ignore_delete_value_expr=[]), "filter.event-filters[1].ignore-delete-value-expr"),
        (
            _event(ignore_update_only_columns="a"),
            "filter.event-filters[1].ignore-update-only-columns",
        ),
        ({"filter": {"ignore-txn-start-ts": ["1"]}}, "filter.ignore-txn-start-ts[0]"),
        ({"filter": {"ignore-txn-start-ts": 7}}, "filter.ignore-txn-start-ts"),
        ({"filter": {"ignore-txn-gtid": "0-1-1"}}, "filter.ignore-txn-gtid"),
        ({"filter": {"ignore-txn-gtid": [5]}}, "filter.ignore-txn-gtid[0]"),
        ({"case-sensitive": "no"}, "case-sensitive"),
        ({"force-replicate": 1}, "force-replicate"),
        ({"sink": []}, "sink"),
    ]
    return found + [(given, "TG:ErrConfigInvalid", place) for given, place in wrong]


CASES = [*_rules(), *_values(), *_sinks(), *_keys()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[2]}-{str(case[0])[-40:]}")
def test_refused(case: Case) -> None:
    given, code, place = case
    with pytest.raises(InvalidError) as e:
        check(given)
    assert (e.value.code, e.value.object) == (code, place)
    assert e.value.message
    assert e.value.hint
    assert "\n" not in e.value.hint
    assert len(e.value.hint) < 200


def test_there_are_enough_of_them() -> None:
    assert len({str(case) for case in CASES}) >= 200
