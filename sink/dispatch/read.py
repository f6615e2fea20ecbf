"""``sink.dispatchers`` and ``sink.column-selectors`` of a configuration; mistakes by place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cdc.base.matcher import FilterRuleInvalid, parse_matcher
from cdc.base.near import did_you_mean
from cdc.base.refusals import Refusals, read_each
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.rules import DispatcherInvalid
from sink.dispatch.settings import ColumnSelectorSettings, DispatcherSettings
from sink.dispatch.target import TargetRouter
from sink.dispatch.topic import TopicExpressionInvalid, check_expression

Rule = TypeVar("Rule", bound=BaseModel)


def read_dispatchers(given: Any) -> tuple[DispatcherSettings, ...]:
    """The rules, all that can be checked without a table checked.

    Raises ``TG:ErrDispatcherInvalid``, ``TG:ErrFilterRuleInvalid``, or the code of a topic
    expression or a routing rule; the object is the place.
    """
    rules = _read(given, "sink.dispatchers", DispatcherSettings)
    TargetRouter.of(rules)
    refusals = Refusals()
    for i, rule in enumerate(rules):
        with refusals.gathered():
            _check_matcher(rule, f"sink.dispatchers[{i}]")
        with refusals.gathered():
            _check_topic(rule, f"sink.dispatchers[{i}]")
    refusals.check()
    return rules


def _check_matcher(rule: DispatcherSettings, place: str) -> None:
    try:
        parse_matcher(rule.matcher)
    except FilterRuleInvalid as e:
        raise FilterRuleInvalid(
            e.message, object=f"{place}.matcher", position=e.position, hint=e.hint
        ) from None


def _check_topic(rule: DispatcherSettings, place: str) -> None:
    try:
        check_expression(rule.topic or "any")
    except TopicExpressionInvalid as e:
        raise TopicExpressionInvalid(e.message, object=f"{place}.topic", hint=e.hint) from None


def read_column_selectors(given: Any) -> tuple[ColumnSelectorSettings, ...]:
    """The rules. Raises ``TG:ErrDispatcherInvalid`` or ``TG:ErrFilterRuleInvalid`` by place."""
    rules = _read(given, "sink.column-selectors", ColumnSelectorSettings)
    ColumnSelectors(rules)
    return rules


def _read(given: Any, place: str, model: type[Rule]) -> tuple[Rule, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise DispatcherInvalid(
            "is not a list of rules", object=place, hint=f"write [[{place}]] before each rule"
        )
    return read_each(given, lambda i, rule: _rule(rule, f"{place}[{i}]", model))


def _rule(given: Any, place: str, model: type[Rule]) -> Rule:
    if isinstance(given, model):
        return given
    if not isinstance(given, Mapping):
        raise DispatcherInvalid(
            "is not a table of keys", object=place, hint="write key = value, matcher first"
        )
    fields = {str(k).replace("_", "-"): v for k, v in given.items() if v is not None}
    try:
        return model.model_validate(fields)
    except ValidationError as e:
        first = e.errors(include_input=False, include_url=False, include_context=False)[0]
    where = place + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"][:2])
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][0])
        known = [str(f.alias) for f in model.model_fields.values()]
        raise DispatcherInvalid(
            f"{name} is no key of a rule",
            object=where,
            hint=did_you_mean(name, known) or f"remove {name}",
        )
    what = first["msg"].removeprefix("Value error, ")
    hint = "give the tables that it is for" if where.endswith("matcher") else "correct the rule"
    raise DispatcherInvalid(what, object=where, hint=hint)
