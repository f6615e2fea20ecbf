"""Messages of ``protocol=canal-json``, and rows of the upstream as they would have them.

These are made from what the server itself prints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cdc.schema.session import Session
from cdc.verify.columns import Compared, ValueForm
from cdc.verify.fold_store import TextRow
from cdc.verify.keys import Key
from cdc.verify.layout import ComparedColumns
from cdc.verify.messages import MISSING, ChangeTold, RowsTold, Values
from cdc.verify.sessions import Row

_KINDS = frozenset({"INSERT", "UPDATE", "DELETE"})


class CanalForm:
    """``cdc.verify.messages.MessageForm`` of canal-json."""

    def read(
        self, key: bytes | None, value: bytes, session: Session
    ) -> RowsTold | ChangeTold | None:
        """As ``MessageForm.read``."""
        message = json.loads(value)
        kind = message["type"]
        if message.get("isDdl"):
            return _change(message, session)
        if kind not in _KINDS:
            return None
        rows = message["data"]
        return RowsTold(
            kind,
            (message.get("database"), message.get("table")),
            tuple(message.get("pkNames") or ()),
            rows,
            message.get("old") or [{}] * len(rows),
        )

    def select(self, layout: ComparedColumns) -> str:
        """As ``MessageForm.select``."""
        columns = ", ".join(f"{_sql(c)} AS c{i}" for i, c in enumerate(layout.columns))
        return f"SELECT {columns} FROM {layout.table}"

    def values(self, layout: ComparedColumns, row: Row) -> Values:
        """As ``MessageForm.values``."""
        return tuple(_value(c, v) for c, v in zip(layout.columns, row, strict=True))

    def told(self, layout: ComparedColumns, row: TextRow) -> Values:
        """As ``MessageForm.told``."""
        return tuple(_told(c, row.get(c.name, MISSING)) for c in layout.columns)

    def shown(self, column: Compared, value: str) -> str:
        """As ``MessageForm.shown``."""
        return value

    def key_cells(self, columns: Sequence[Compared], key: Key) -> Key:
        """As ``MessageForm.key_cells``."""
        return tuple(_cell(c, v) for c, v in zip(columns, key, strict=True))


def _change(message: Mapping[str, Any], session: Session) -> ChangeTold:
    context = message.get("_tidegate") or {}
    modes = str(context.get("session", {}).get("sql_mode", "")).split(",")
    here = replace(
        session,
        default_schema=context.get("defaultDatabase", message["database"]),
        ansi_quotes="ANSI_QUOTES" in modes,
        no_backslash_escapes="NO_BACKSLASH_ESCAPES" in modes,
    )
    ts = (message.get("_tidb") or {}).get("commitTs")
    return ChangeTold(message["sql"], here, int(ts) if ts else None, int(message["es"]))


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


def _told(column: Compared, value: str | None) -> str | None:
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
