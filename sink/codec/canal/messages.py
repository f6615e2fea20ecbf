"""canal-json messages that are not of rows, built in Python."""

from __future__ import annotations

from collections.abc import Mapping

from cdc.base.ts import Ts, physical_ms
from sink.codec.json_text import json_text


def message(
    schema: str,
    table: str,
    kind: str,
    ts: Ts,
    build_ms: int,
    *,
    sql: str = "",
    ddl: bool = False,
    more: Mapping[str, object] | None = None,
) -> bytes:
    """A message that is not of rows; ``more`` are the members of extensions."""
    members: dict[str, object] = {
        "id": 0,
        "database": schema,
        "table": table,
        "pkNames": None,
        "isDdl": ddl,
        "type": kind,
        "es": physical_ms(ts),
        "ts": build_ms,
        "sql": sql,
        "sqlType": None,
        "mysqlType": None,
        "data": None,
        "old": None,
    }
    return json_text(members | dict(more or {})).encode()
