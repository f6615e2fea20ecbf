"""What is selected of a table so that the protocol tells each value exactly."""

from __future__ import annotations

from typing import Final

from cdc.schema.table import Column, Table
from cdc.schema.tokens import quoted

SESSION: Final = (
    # Padding of CHAR, and quotes that are something else, are modes.
    "SET SESSION sql_mode = ''",
    # TIMESTAMP is stored in UTC; in other zones an hour of each year is shown twice.
    "SET SESSION time_zone = '+00:00'",
    # Text as it is stored: nothing is converted, so nothing is lost.
    "SET SESSION character_set_results = NULL",
    # A limit set for careless people would leave out rows without a word.
    "SET SESSION sql_select_limit = 18446744073709551615",
    # The server ends a result that nobody reads for a minute; a paused snapshot may take longer.
    "SET SESSION net_write_timeout = 3600",
    # With READ UNCOMMITTED for everybody, rows that are rolled back later would be read.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
"""Statements that the session runs before it reads rows."""

_BYTES_OF: Final = {"uuid": 16, "inet6": 16, "inet4": 4}


def select_list(table: Table, *, prepared: bool = False) -> tuple[str, ...]:
    """One SQL expression for each column of the table, virtual and invisible ones included.

    ``cdc.snapshot.images`` makes row images of their values in a session with ``SESSION``;
    ``prepared``: of those that the binary protocol has.
    """
    return tuple(_expression(column, prepared) for column in table.columns)


def can_be_prepared(table: Table) -> bool:
    """Whether the binary protocol tells all values: of YEAR(2) it does not say which century."""
    return not any(c.column_type.lower().startswith("year(2)") for c in table.columns)


def _expression(column: Column, prepared: bool) -> str:
    name = quoted(column.name)
    kind = column.data_type
    if not prepared and (kind == "float" or (kind == "double" and column.scale is not None)):
        # They are shown with six digits, and with D decimals as (M,D), which is not always what is
        # stored; a product with as many as tell it. Adding 0 would lose the sign of -0.
        return f"{name} * 1e0"
    if kind in ("enum", "set"):
        # Not + 0: that makes a double of it, which has not the 64 members of a SET.
        return f"CAST({name} AS UNSIGNED)"
    if kind in _BYTES_OF:
        return f"CAST({name} AS BINARY({_BYTES_OF[kind]}))"
    return name
