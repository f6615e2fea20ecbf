"""``filter.event-filters``: which events are ignored by their type, or by their text.

The first rule that says so decides. A schema-level DDL is matched by the schema alone, as in
TiCDC: a rule for ``test.t1`` is asked about DROP DATABASE test too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cdc.base.errors import InvalidError
from cdc.base.matcher import TableMatcher
from cdc.base.refusals import read_each
from cdc.base.regex import Regex
from cdc.coord.feed_config import EventFilterConfig
from filter.event_types import ALL_DML, DML, event_types
from filter.rules import matcher_at


class IgnoreSqlInvalid(InvalidError):
    """A text in ``ignore-sql`` that is no regular expression."""

    code = "TG:ErrIgnoreSQLInvalid"


@dataclass(frozen=True, slots=True)
class EventVerdict:
    """What the event filter says of one event.

    ``rule`` is the index in ``filter.event-filters`` of the rule that ignores it, -1 for none;
    ``why`` names what in that rule did.
    """

    ignored: bool
    rule: int = -1
    why: str = ""


PASSES = EventVerdict(False)


@dataclass(frozen=True, slots=True)
class EventRule:
    """One compiled rule; ``place`` is where it stands in the configuration."""

    place: str
    settings: EventFilterConfig
    matcher: TableMatcher
    events: frozenset[str]
    sql: tuple[Regex, ...]

    def applies(self, schema: str, table: str) -> bool:
        """Whether it is asked about a table, or with ``table`` empty about a schema."""
        if not table:
            return self.matcher.matches_schema(schema)
        return self.matcher.matches(schema, table)

    def ignores_ddl(self, types: Collection[str], sql: str) -> str:
        """Why it ignores a DDL, or nothing."""
        for name in self.settings.ignore_event:
            if " ".join(name.lower().split()) in types:
                return f"ignore-event has {name!r}"
        for regex in self.sql:
            if regex.search(sql):
                return f"ignore-sql has {regex.source!r}"
        return ""


class EventFilter:
    """Compiled rules. Raises ``TG:ErrFilterRuleInvalid``, ``TG:ErrInvalidIgnoreEventType`` or
    ``TG:ErrIgnoreSQLInvalid``, each with the place in the configuration.
    """

    def __init__(self, rules: Sequence[EventFilterConfig], *, case_sensitive: bool = False) -> None:
        self.rules = read_each(
            rules, lambda i, rule: _compile(rule, f"filter.event-filters[{i}]", case_sensitive)
        )

    def verdict_ddl(
        self, schema: str, table: str, types: Collection[str], sql: str
    ) -> EventVerdict:
        """About a DDL of one table, or with ``table`` empty of one schema.

        ``types`` are those of ``filter.ddl_types``. Of a rename it is the old name that counts.
        """
        for i, rule in enumerate(self.rules):
            if rule.applies(schema, table) and (why := rule.ignores_ddl(types, sql)):
                return EventVerdict(True, i, why)
        return PASSES

    def verdict_dml(self, schema: str, table: str, event: str) -> EventVerdict:
        """About the rows of one kind (``insert``, ``update``, ``delete``) of a table."""
        for i, rule in enumerate(self.rules):
            found = rule.events & {event, ALL_DML}
            if found and rule.applies(schema, table):
                return EventVerdict(True, i, f"ignore-event has {min(found)!r}")
        return PASSES

    def ignored_dml(self, schema: str, table: str) -> frozenset[str]:
        """Which of ``insert``, ``update`` and ``delete`` are ignored for a table."""
        found: set[str] = set()
        for rule in self.rules:
            if not rule.events.isdisjoint((*DML, ALL_DML)) and rule.applies(schema, table):
                found |= DML if ALL_DML in rule.events else rule.events & DML
        return frozenset(found)


def _compile(settings: EventFilterConfig, place: str, case_sensitive: bool) -> EventRule:
    patterns = []
    for i, text in enumerate(settings.ignore_sql):
        try:
            patterns.append(Regex(text, ignore_case=True))
        except ValueError as e:
            raise IgnoreSqlInvalid(
                f"{text!r} is no regular expression: {e}",
                object=f"{place}.ignore-sql[{i}]",
                hint="write it in Go's (RE2's) syntax: no look-around, no back references",
            ) from None
    return EventRule(
        place,
        settings,
        matcher_at(settings.matcher, f"{place}.matcher", case_sensitive=case_sensitive),
        event_types(settings.ignore_event, f"{place}.ignore-event"),
        tuple(patterns),
    )
