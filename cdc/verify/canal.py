"""Messages of ``protocol=canal-json``, and rows of the upstream as they would have them.

These are made from what the server itself prints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cdc.schema.session import Session
from cdc.verify.columns import Compared, ValueForm
from cdc.verify.messages import ChangeTold, RowsTold, float_text

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

    def sql(self, column: Compared) -> str:
        """As ``MessageForm.sql``."""
        q = column.sql
        if column.form in (ValueForm.NUMBER, ValueForm.MEMBERS):
            return f"({q} + 0)"
        if column.form is ValueForm.FLOAT:
            return f"({q} + 0e0)"
        if column.form is ValueForm.TEXT:
            return f"CONVERT({q} USING utf8mb4)"
        if column.form in (ValueForm.BYTES, ValueForm.VECTOR):
            return f"HEX({q})"
        return f"CAST({q} AS CHAR)"

    def value(self, column: Compared, text: str) -> str:
        """As ``MessageForm.value``."""
        if column.form is ValueForm.FLOAT:
            return float_text(column, text)
        if column.form is ValueForm.BYTES:
            return bytes.fromhex(text).decode("latin-1")
        if column.form is ValueForm.MEMBERS:
            return str(int(float(text))) if "." in text else text
        return text

    def told(self, column: Compared, text: str) -> str:
        """As ``MessageForm.told``."""
        if text == "-0" and column.form is ValueForm.FLOAT:
            return "0"
        if column.form is ValueForm.VECTOR:
            try:
                return np.array(json.loads(text), "<f4").tobytes().hex().upper()
            except ValueError:
                return text
        return text

    def shown(self, column: Compared, text: str) -> str:
        """As ``MessageForm.shown``."""
        return text

    def cell(self, column: Compared, text: str) -> str:
        """As ``MessageForm.cell``."""
        if column.form is ValueForm.TEXT:
            return text.encode().hex()
        return text.encode("latin-1").hex() if column.form is ValueForm.BYTES else text


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
