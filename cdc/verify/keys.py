"""Ranges of a key, as SQL conditions that mean the same on both sides.

A key is a tuple of texts, one for each of its columns (its *cells*), and a range takes what lies
above one key and up to another. Each server cuts by its own order of the key. Should the orders
differ, a row of the target lies in other ranges than upstream, perhaps in several, but in one at
least: those then differ, and the row is found on both sides when it is looked up by its key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdc.base.errors import DefiniteError
from cdc.verify.columns import Compared, ValueForm

Key = tuple[str, ...]

_DIGITS = re.compile(r"[-+.0-9eE]+")
_PRINTED = re.compile(r"[^'\\\\\x00]*")


class KeyUnreadable(DefiniteError):
    """A key of a message is none of its column's type."""

    code = "TG:ErrVerifyKeyUnreadable"

    @classmethod
    def of(cls, column: Compared, text: str) -> KeyUnreadable:
        """That of a key's value."""
        return cls(
            f"{text[:100]!r} is no key of its type",
            object=f"column {column.name}",
            hint="see whether the key's type was changed, and what else writes into the topic",
        )


@dataclass(frozen=True, slots=True)
class Range:
    """Keys above ``after`` and up to ``upto``; None is open."""

    after: Key | None = None
    upto: Key | None = None


def cell(column: Compared) -> str:
    """SQL for the cell of a key column."""
    q = column.sql
    if column.form is ValueForm.TEXT:
        return f"HEX(CONVERT({q} USING utf8mb4))"
    if column.form is ValueForm.BYTES:
        return f"HEX({q})"
    return f"({q} + 0)" if column.form is ValueForm.NUMBER else f"CAST({q} AS CHAR)"


def literal(column: Compared, value: str) -> str:
    """SQL for a cell as a constant of the column's type."""
    if column.form is ValueForm.TEXT:
        return f"_utf8mb4 X'{value}'"
    if column.form is ValueForm.BYTES:
        return f"X'{value}'"
    if column.form in (ValueForm.NUMBER, ValueForm.DECIMAL, ValueForm.MEMBERS):
        return _safe(column, value, _DIGITS)
    # Times, years and what has only a text: none of them holds a quote.
    return f"'{_safe(column, value, _PRINTED)}'"


def _safe(column: Compared, value: str, form: re.Pattern[str]) -> str:
    # A topic may hold messages of others, and what they say must not become SQL.
    if form.fullmatch(value):
        return value
    raise KeyUnreadable.of(column, value)


def within(columns: Sequence[Compared], range_: Range) -> str:
    """SQL condition for a range."""
    found = []
    if range_.after is not None:
        found.append(_beyond(columns, range_.after, ">", ">", ">="))
    if range_.upto is not None:
        found.append(_beyond(columns, range_.upto, "<", "<=", "<="))
    return " AND ".join(found) or "1 = 1"


def one_of(columns: Sequence[Compared], keys: Iterable[Key]) -> str:
    """SQL condition for single keys."""
    return " OR ".join(
        "("
        + " AND ".join(f"{c.sql} = {literal(c, v)}" for c, v in zip(columns, key, strict=True))
        + ")"
        for key in keys
    )


def _beyond(columns: Sequence[Compared], key: Key, inner: str, last: str, first: str) -> str:
    condition = ""
    for column, value in reversed(list(zip(columns, key, strict=True))):
        name, constant = column.sql, literal(column, value)
        if not condition:
            condition = f"{name} {last} {constant}"
        else:
            condition = f"({name} {inner} {constant} OR ({name} = {constant} AND {condition}))"
    if len(columns) > 1:
        # Said once more for the optimizer, which finds no range in the alternatives.
        condition = f"{columns[0].sql} {first} {literal(columns[0], key[0])} AND {condition}"
    return condition
