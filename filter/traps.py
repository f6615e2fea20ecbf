"""What a configuration does that its author may not expect, as warnings at creation."""

from __future__ import annotations

from cdc.coord.feed_config import FeedConfig
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from filter.ddl_types import ddl_types
from filter.events import EventFilter, EventRule

_STATEMENTS = ("CREATE DATABASE {}", "DROP DATABASE {}", "ALTER DATABASE {} CHARACTER SET utf8mb4")


def traps(config: FeedConfig) -> list[str]:
    """Rules for single tables that also ignore statements about whole databases.

    A schema-level DDL is asked of every rule that could match a table of the schema, as in TiCDC.
    """
    events = EventFilter(config.filter.event_filters, case_sensitive=config.case_sensitive)
    return [text for rule in events.rules for text in _of(rule)]


def _of(rule: EventRule) -> list[str]:
    if any(r.positive and r.table.everything for r in rule.matcher.rules):
        return []
    found = []
    for statement in _STATEMENTS:
        words = statement[: statement.index(" {}")]
        types = ddl_types(read_ddl(statement.format("x"), Session())).types
        for name in ("x", "`x`", "IF EXISTS x"):
            why = rule.ignores_ddl(types, statement.format(name))
            if why:
                tables = ", ".join(rule.settings.matcher)
                found.append(
                    f"{rule.place} is for {tables}, and also ignores {words} of their schemas, "
                    f"as {why}"
                )
                break
    return found
