"""Which tables a changefeed delivers: those its rules match, with a key that names their rows."""

from __future__ import annotations

from collections.abc import Iterable

from cdc.base.collector import collection_paused
from cdc.base.errors import InvalidError
from cdc.coord.feed_config import FeedConfig
from cdc.schema.snapshot import Schema, Wanted
from cdc.schema.table import Table
from filter.online import OnlineDdl
from filter.passing import Passing
from filter.rules import TableRules
from sink.dispatch.read import read_dispatchers
from sink.dispatch.shards import check_groups
from sink.dispatch.target import TargetRouter

_SHOWN_TABLES = 20


class TableIneligible(InvalidError):
    """Replicated tables without a key that identifies their rows."""

    code = "TG:ErrTableIneligible"


def rule_matcher(config: FeedConfig) -> Wanted:
    """The tables that ``filter.rules`` match."""
    return TableRules(config.filter.rules, case_sensitive=config.case_sensitive)


def matched_tables(schema: Schema, config: FeedConfig) -> list[Table]:
    """The tables that ``filter.rules`` match and that no tool has made; no other is read.

    Raises the error of a definition that cannot be read.
    """
    rules = TableRules(config.filter.rules, case_sensitive=config.case_sensitive)
    online = OnlineDdl(config)
    names = list(schema.tables_of(rules.matches_schema))
    online.learn(names)
    matching = zip(names, rules.matches_all(names), strict=True)
    with collection_paused():
        return [schema[n] for n, yes in matching if yes and not online.hides(schema, *n)]


def eligible(table: Table, config: FeedConfig) -> bool:
    """Whether a table has a key, or the user wants it without one."""
    return config.force_replicate or bool(table.handle_key)


def tables_to_deliver(schema: Schema, config: FeedConfig) -> list[Table]:
    """The eligible tables that the rules match.

    Raises TableIneligible for others that they match, unless the user wants these left out.
    """
    matched = matched_tables(schema, config)
    ineligible = [t for t in matched if not eligible(t, config)]
    if ineligible and not config.ignore_ineligible_table:
        raise TableIneligible(
            f"no primary key and no not-null unique key: {_some(ineligible)}",
            hint="add a key, exclude them in filter.rules, or set force-replicate or "
            "ignore-ineligible-table",
        )
    return [t for t in matched if eligible(t, config)]


def checked_tables(schema: Schema, config: FeedConfig) -> list[Table]:
    """The tables to deliver, with value expressions that fit all of them.

    Raises TableIneligible, the invalid error of an expression, or ShardTablesDiffer.
    """
    tables = tables_to_deliver(schema, config)
    Passing(config, schema.session).check(tables)
    if config.merging:
        dispatchers = read_dispatchers(config.sink.get("dispatchers", ()))
        sensitive = config.case_sensitive
        names = TargetRouter.of(dispatchers, case_sensitive=sensitive, merging=True)
        check_groups(names, tables, by_name=config.by_name)
    return tables


def keyless_warnings(schema: Schema, config: FeedConfig) -> list[str]:
    """What becomes of the matched tables without a key; nothing if there are none."""
    keyless = [t for t in matched_tables(schema, config) if not t.handle_key]
    if not keyless:
        return []
    if config.force_replicate:
        return [
            "tables without a primary key or a not-null unique key are replicated, so their "
            f"consumers cannot tell rows apart: {_some(keyless)}"
        ]
    return [f"tables without a primary key or a not-null unique key are left out: {_some(keyless)}"]


def copies_warnings(schema: Schema, config: FeedConfig) -> list[str]:
    """What becomes of copies that tools of online schema change make now, or seem to make."""
    rules = TableRules(config.filter.rules, case_sensitive=config.case_sensitive)
    online = OnlineDdl(config)
    hidden, seeming = [], []
    # A copy is in the database of its model.
    names = set(schema.tables_of(rules.matches_schema))
    online.learn(names)
    for database, name in names:
        if online.hides(schema, database, name):
            if rules.matches(database, name):
                hidden.append(f"{database}.{name}")
            continue
        model = (database, online.resembled(name))
        if model in names and rules.matches(*model):
            seeming.append(f"{database}.{name}")
    found = []
    if hidden:
        found.append(f"tables of an online schema change are not delivered: {_shown(hidden)}")
    if seeming:
        found.append(
            "called as copies of an online schema change, and nothing shows that they are; if they"
            f" take a table's place, it stops until shadow-table-rules say so: {_shown(seeming)}"
        )
    return found


def _some(tables: Iterable[Table]) -> str:
    return _shown([t.full_name for t in tables])


def _shown(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - _SHOWN_TABLES} more" if len(names) > _SHOWN_TABLES else ""
    return ", ".join(names[:_SHOWN_TABLES]) + more
