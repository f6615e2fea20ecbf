"""A table with what it takes to make it anew elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema.table import Table


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table, and how its server prints it.

    ``text`` is its SHOW CREATE TABLE under an empty ``sql_mode``; "" where a statement has changed
    the table since, so that only its value is known, which lacks checks and says of foreign keys no
    more than their names. ``charset`` and ``collation`` are the defaults of its database.
    """

    table: Table
    text: str
    charset: str
    collation: str
