"""Rows of the target that are of one table of a group, as columns say that are given by its names.

They are compared with that table alone, so that equal keys of two tables are no matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc.schema.tokens import quoted
from cdc.verify.sessions import Sql
from sink.dispatch.extracted import Given
from sink.mysql.sql_forms import literal


def condition(given: Given) -> str:
    """SQL for rows of a table; "" for all rows."""
    return " AND ".join(f"{quoted(name)} = {literal(value).decode()}" for name, value in given)


def of_nobody(target: Sql, name: tuple[str, str], every: Sequence[Given]) -> list[str]:
    """What is to be told of rows that are of none of the tables: nothing, or one line."""
    known = " OR ".join(f"({condition(given)})" for given in every if given)
    rows = target.rows(f"SELECT COUNT(*) AS n FROM {quoted(*name)} WHERE ({known}) IS NOT TRUE")
    count = int(rows[0][0])
    columns = ", ".join(column for column, _ in next(given for given in every if given))
    return [f"{count} rows have values of {columns} that no table gives"] if count else []
