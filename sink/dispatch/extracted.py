"""Target columns whose values come from a table's names: DM's ``extract-*`` of its routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cdc.base.nodes import is_qualified, node_of, plain
from cdc.schema.table import Column
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import RoutingFailed, TargetRouter

Given = tuple[tuple[str, str], ...]
"""Columns of the target with the one value that all rows of a table have there."""

CHARACTERS: Final = 64
"""Each value is the name of a table, a database or a node, or a part of it."""
# Names that differ in case only are two: as keys they must be.
CHARSET, COLLATION = "utf8mb4", "utf8mb4_bin"


def given_column(name: str) -> Column:
    """One of them, as a table is made with it."""
    return Column(
        name,
        "varchar",
        f"varchar({CHARACTERS})",
        length=CHARACTERS,
        charset=CHARSET,
        collation=COLLATION,
        nullable=False,
    )


def given_columns(
    rules: Sequence[DispatcherSettings], names: TargetRouter, schema: str, table: str
) -> Given:
    """Those of a table, by the rule that names it; a name that does not match gives ``''``.

    Raises :class:`RoutingFailed` for the source of a table whose upstream has one server.
    """
    index = names.rule(schema, table)
    if index < 0:
        return ()
    rule = rules[index]
    found = []
    if rule.extract_table is not None:
        one = rule.extract_table
        found.append((one.target_column, _part(one.table_regexp, table)))
    if rule.extract_schema is not None:
        of_schema = rule.extract_schema
        found.append((of_schema.target_column, _part(of_schema.schema_regexp, plain(schema))))
    if rule.extract_source is not None:
        if not is_qualified(schema):
            raise RoutingFailed(
                "extract-source has no source to look at: the upstream is one server",
                object=f"{schema}.{table}",
                hint=f"remove it from sink.dispatchers[{index}], or use an upstream of kind shards",
            )
        source = rule.extract_source
        found.append((source.target_column, _part(source.source_regexp, node_of(schema))))
    return tuple(found)


def _part(expression: str, name: str) -> str:
    found = re.search(expression, name)
    return (found[1] or "") if found else ""
