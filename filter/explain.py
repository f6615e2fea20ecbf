"""Which rule decided about a table or a DDL, and why: for filter, dispatch and columns.

The same compiled rules answer as in a running changefeed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from cdc.base.errors import TidegateError
from cdc.base.matcher import parse_matcher
from cdc.coord.feed_config import FeedConfig
from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.decision import DdlFilter, Decision, Outcome
from filter.event_types import DELETE, INSERT, UPDATE
from filter.rules import is_system
from filter.settings import EXPRESSIONS
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.read import read_column_selectors, read_dispatchers
from sink.dispatch.rules import Router
from sink.dispatch.settings import DispatcherSettings, PartitionMode
from sink.dispatch.target import TargetRouter

REPLICATED, LEFT_OUT = "replicated", "left out"
OF_THE_URI = "the topic of the sink URI"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was decided: ``place`` is the deciding rule in the configuration, or ''."""

    about: str
    verdict: str
    why: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """``verdict`` is what happens to ``subject`` in the end; ``steps`` are in their order."""

    subject: str
    verdict: str
    steps: tuple[Step, ...]


class Explainer:
    """Explains one configuration. Raises the ``invalid`` errors of its rules.

    ``default_topic`` is the topic of the sink's URI, where it is known.
    """

    def __init__(self, config: FeedConfig, default_topic: str = "") -> None:
        self._config = config
        self._ddl = DdlFilter(config)
        self._dispatchers = read_dispatchers(config.sink.get("dispatchers", ()))
        selectors = read_column_selectors(config.sink.get("column_selectors", ()))
        sensitive = config.case_sensitive
        self._topic = default_topic
        self._router = Router(
            self._dispatchers,
            default_topic or "topic",
            case_sensitive=sensitive,
            merging=config.merging,
        )
        self._targets = TargetRouter.of(
            self._dispatchers, case_sensitive=sensitive, merging=config.merging
        )
        self._columns = ColumnSelectors(selectors, case_sensitive=sensitive)
        self._matchers = [
            parse_matcher(d.matcher, case_sensitive=sensitive) for d in self._dispatchers
        ]

    def table(self, schema: str, name: str, known: Table | None = None) -> Explanation:
        """About a table, and its rows; ``known`` is its definition, if there is one."""
        subject = f"{schema}.{name}"
        rule = self._rules(schema, name)
        steps = [rule]
        if rule.verdict == REPLICATED and known is not None and not known.handle_key:
            steps.append(self._without_key())
        if steps[-1].verdict == LEFT_OUT:
            return Explanation(subject, LEFT_OUT, tuple(steps))
        steps += [self._rows(schema, name, event) for event in (INSERT, UPDATE, DELETE)]
        steps += self._expressions(schema, name)
        steps += self._dispatch(schema, name, known)
        steps += self._selected(schema, name, known)
        return Explanation(subject, REPLICATED, tuple(steps))

    def ddl(self, sql: str, session: Session, table: Table | None = None) -> Explanation:
        """About a statement. Raises ``DDLNotUnderstood``."""
        decision = self._ddl.decide(sql, session, table)
        types = ", ".join(sorted(decision.types.types))
        steps = [Step("type", decision.types.name, f"event types: {types}")]
        for part in decision.parts:
            steps += self._part(part.name, part.outcome, part.why, part.rule)
        for old, new in decision.left:
            steps.append(
                Step(
                    "rename", LEFT_OUT, f"rows of {_text(new)}, once {_text(old)}, are not matched"
                )
            )
        return Explanation(" ".join(sql.split()), _verdict(decision), tuple(steps))

    def _rules(self, schema: str, name: str) -> Step:
        if is_system(schema):
            return Step("filter.rules", LEFT_OUT, f"{schema} is a system schema: never replicated")
        index, text = self._ddl.rules.decides(schema, name)
        if index < 0:
            return Step("filter.rules", LEFT_OUT, "no rule matches", "filter.rules")
        place = f"filter.rules[{index}]"
        why = f"the last rule that matches is {text!r}"
        return Step(
            "filter.rules", LEFT_OUT if text.lstrip().startswith("!") else REPLICATED, why, place
        )

    def _without_key(self) -> Step:
        what = "it has no primary key and no not-null unique key"
        if self._config.force_replicate:
            return Step("key", REPLICATED, f"{what}, and force-replicate is on", "force-replicate")
        return Step("key", LEFT_OUT, f"{what}, and force-replicate is off", "force-replicate")

    def _rows(self, schema: str, name: str, event: str) -> Step:
        found = self._ddl.events.verdict_dml(schema, name, event)
        if not found.ignored:
            return Step(event, "deliver", "no event filter ignores it by its type")
        place = f"filter.event-filters[{found.rule}].ignore-event"
        return Step(event, "ignored", found.why, place)

    def _expressions(self, schema: str, name: str) -> list[Step]:
        steps = []
        for rule in self._ddl.events.rules:
            if not rule.applies(schema, name):
                continue
            for key in EXPRESSIONS:
                value = getattr(rule.settings, key)
                if value:
                    text = value if isinstance(value, str) else ", ".join(value)
                    kebab = key.replace("_", "-")
                    steps.append(
                        Step("rows", "by value", f"{kebab}: {text}", f"{rule.place}.{kebab}")
                    )
        return steps

    def _dispatch(self, schema: str, name: str, known: Table | None) -> list[Step]:
        index = next((i for i, m in enumerate(self._matchers) if m.matches(schema, name)), -1)
        place = f"sink.dispatchers[{index}]" if index >= 0 else ""
        rule = self._dispatchers[index] if index >= 0 else DispatcherSettings(matcher=("*.*",))
        why = "the first rule that matches" if index >= 0 else "no rule matches"
        named = bool(rule.topic or self._topic)
        topic = self._router.topic(schema, name) if named else OF_THE_URI
        steps = [
            Step("topic", topic, why, f"{place}.topic" if rule.topic else place),
            Step("partition", self._spread(rule, known), why, place),
        ]
        target = self._targets.rule(schema, name)
        if target >= 0:
            names = _text(self._targets.target(schema, name))
            where = f"sink.dispatchers[{target}]"
            steps.append(Step("target", names, "the first rule with a target that matches", where))
        return steps

    def _spread(self, rule: DispatcherSettings, known: Table | None) -> str:
        if known is not None:
            try:
                topic = self._router.topic(known.schema, known.name)
                partitions = {topic: 1}
                router = Router(
                    self._dispatchers, self._topic or "topic", partitions,
                    case_sensitive=self._config.case_sensitive, merging=self._config.merging,
                )  # fmt: skip
                route = router.route(known)
                return f"{route.mode} ({', '.join(route.columns)})" if route.columns else route.mode
            except TidegateError as e:
                return f"error: {e}"
        if rule.mode is PartitionMode.COLUMNS:
            return f"columns ({', '.join(rule.columns)})"
        return f"index-value ({rule.index})" if rule.index else str(rule.mode)

    def _selected(self, schema: str, name: str, known: Table | None) -> list[Step]:
        index = self._columns.rule(schema, name)
        if index < 0:
            return [Step("columns", "all", "no column selector matches")]
        place = f"sink.column-selectors[{index}]"
        why = "the first selector that matches"
        if known is None:
            return [Step("columns", "by selector", why, place)]
        try:
            self._columns.check(known)
        except TidegateError as e:
            return [Step("columns", f"error: {e.message}", e.hint, place)]
        names = [known.columns[i].name for i in self._columns.selected(known)]
        return [Step("columns", ", ".join(names), why, place)]

    def _part(self, name: tuple[str, str], outcome: Outcome, why: str, rule: int) -> list[Step]:
        schema, table = name
        about = _text(name) if table else schema
        if outcome is Outcome.OUTSIDE:
            place = self._rules(schema, table).place if table else "filter.rules"
            return [Step(about, outcome, why, place)]
        if outcome is Outcome.IGNORED:
            return [Step(about, outcome, why, f"filter.event-filters[{rule}]")]
        place = self._rules(schema, table).place if table else ""
        steps = [Step(about, outcome, why, place)]
        if outcome is Outcome.DELIVER and self._targets:
            try:
                known = self._targets.target(*name) if table else None
                target = _text(known) if known else self._targets.target_schema(schema)
            except TidegateError as e:
                target = f"error: {e}"
            index = self._targets.rule(schema, table)
            where = f"sink.dispatchers[{index}]" if index >= 0 else ""
            steps.append(Step(f"{about} at the target", target, "sink.dispatchers", where))
        return steps


def topic_of(sink_uri: str) -> str:
    """The topic of a Kafka sink's URI, or nothing."""
    try:
        parts = urlsplit(sink_uri)
    except ValueError:
        return ""
    return parts.path.strip("/") if parts.scheme.startswith("kafka") else ""


def _verdict(decision: Decision) -> str:
    if decision.outcome is Outcome.ERROR:
        assert decision.error is not None
        return f"error {decision.error.code}: {decision.why}"
    return str(decision.outcome)


def _text(name: Sequence[str]) -> str:
    return ".".join(part for part in name if part)
