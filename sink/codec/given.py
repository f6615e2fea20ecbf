"""Columns that a message has beside its table's: DM's ``extract-*``, values out of names.

They stand before the table's own, and are a part of its key: rows of two tables with one key then
do not meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc.schema.table import Table
from sink.codec.json_text import json_text
from sink.dispatch.extracted import Given, given_columns
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import RoutingFailed, TargetRouter


def given_of(table: Table, rules: Sequence[DispatcherSettings], names: TargetRouter) -> Given:
    """Those of a table's messages.

    Raises :class:`RoutingFailed` as ``given_columns`` does, and for a column that the table has.
    """
    given = given_columns(rules, names, table.schema, table.name)
    for column, _ in given:
        if column.lower() in table.positions:
            raise RoutingFailed(
                f"column {column}, which is to be extracted from names, is upstream too",
                object=table.full_name,
                hint="give it another name: target-column in sink.dispatchers",
            )
    return given


def members(given: Given) -> str:
    """They as members of a JSON object, which others follow."""
    return ",".join(f"{json_text(name)}:{json_text(value)}" for name, value in given)
