"""Rows of the upstream as canal-json would write them, made from what the server itself prints."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from cdc.verify import keys
from cdc.verify.columns import Compared, ValueForm
from cdc.verify.keys import Key
from cdc.verify.layout import ComparedColumns
from cdc.verify.sessions import Row

Values = tuple[str | None, ...]

MISSING = "\0missing"
"""In place of a value that there is none of: of a column that a table, or a message, lacks."""


def select(layout: ComparedColumns) -> str:
    """SQL for all columns of all rows; a condition may follow."""
    columns = ", ".join(f"{_sql(c)} AS c{i}" for i, c in enumerate(layout.columns))
    return f"SELECT {columns} FROM {layout.table}"


def values(layout: ComparedColumns, row: Row) -> Values:
    """A row of ``select`` as texts, or None for NULL."""
    return tuple(_value(c, v) for c, v in zip(layout.columns, row, strict=True))


def said(layout: ComparedColumns, row: dict[str, str | None]) -> Values:
    """A row of a message in the same form; a column that it lacks has a text of no value."""
    return tuple(_said(c, row.get(c.name, MISSING)) for c in layout.columns)


def key_cells(columns: Sequence[Compared], key: Key) -> Key:
    """Texts of key columns in a message as the cells of a condition."""
    return tuple(_cell(c, v) for c, v in zip(columns, key, strict=True))


def _sql(column: Compared) -> str:
    q = column.sql
    if column.constant:
        return "NULL"
    if column.form in (ValueForm.NUMBER, ValueForm.MEMBERS):
        return f"({q} + 0)"
    if column.form is ValueForm.FLOAT:
        return f"({q} + 0e0)"
    if column.form is ValueForm.TEXT:
        return f"CONVERT({q} USING utf8mb4)"
    if column.form in (ValueForm.BYTES, ValueForm.VECTOR):
        return f"HEX({q})"
    return f"CAST({q} AS CHAR)"


def _value(column: Compared, value: object) -> str | None:
    if column.constant:
        return MISSING
    if value is None:
        return None
    text = value.decode() if isinstance(value, bytes) else str(value)
    if column.form is ValueForm.FLOAT:
        number = float(text)
        single = np.float32(number) if column.single else np.float64(number)
        return np.format_float_positional(single, trim="-")
    if column.form is ValueForm.BYTES:
        return bytes.fromhex(text).decode("latin-1")
    if column.form is ValueForm.MEMBERS:
        return str(int(float(text))) if "." in text else text
    return text


def _said(column: Compared, value: str | None) -> str | None:
    if value == "-0" and column.form is ValueForm.FLOAT:
        return "0"
    if value is not None and column.form is ValueForm.VECTOR:
        try:
            return np.array(json.loads(value), "<f4").tobytes().hex().upper()
        except ValueError:
            return value
    return value


def _cell(column: Compared, value: str) -> str:
    if column.form is ValueForm.TEXT:
        return value.encode().hex()
    return value.encode("latin-1").hex() if column.form is ValueForm.BYTES else value


def condition(layout: ComparedColumns, wanted: Sequence[Key]) -> str:
    """SQL condition for rows by the texts of their keys."""
    return keys.one_of(layout.key, (key_cells(layout.key, k) for k in wanted))
