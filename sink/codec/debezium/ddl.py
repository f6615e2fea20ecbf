"""Schema changes as Debezium tells them: the statement, under the key of its database.

``tableChanges``, the tables as Debezium's own parser sees them, is empty.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import cdc
from cdc.base.ts import physical_ms
from sink.codec.contract import Message
from sink.codec.debezium.envelope import CONNECTOR, SOURCE, Schema, field, struct
from sink.codec.debezium.settings import DebeziumSettings
from sink.codec.json_text import json_text
from sink.codec.statement import statement_text
from sink.dispatch.target import TargetRouter
from sink.schema_change import SchemaChange, TableName

_NAME: Final = "io.debezium.connector.mysql.SchemaChange"
_COLUMN: Final[Schema] = struct(
    [
        field("name", "string"),
        field("jdbcType", "int32"),
        field("nativeType", "int32", optional=True),
        field("typeName", "string"),
        field("typeExpression", "string", optional=True),
        field("charsetName", "string", optional=True),
        field("length", "int32", optional=True),
        field("scale", "int32", optional=True),
        field("position", "int32"),
        field("optional", "boolean", optional=True),
        field("autoIncremented", "boolean", optional=True),
        field("generated", "boolean", optional=True),
        field("comment", "string", optional=True),
        field("defaultValueExpression", "string", optional=True),
        {
            "type": "array",
            "items": {"type": "string", "optional": False},
            "optional": True,
            "field": "enumValues",
        },
    ],
    "io.debezium.connector.schema.Column",
) | {"version": 1}
_TABLE: Final[Schema] = struct(
    [
        field("defaultCharsetName", "string", optional=True),
        {
            "type": "array",
            "items": {"type": "string", "optional": False},
            "optional": True,
            "field": "primaryKeyColumnNames",
        },
        {"type": "array", "items": _COLUMN, "optional": False, "field": "columns"},
        field("comment", "string", optional=True),
    ],
    "io.debezium.connector.schema.Table",
) | {"optional": True, "version": 1, "field": "table"}
_CHANGE: Final[Schema] = struct(
    [field("type", "string"), field("id", "string"), _TABLE], "io.debezium.connector.schema.Change"
) | {"version": 1}
_VALUE: Final[Schema] = struct(
    [
        SOURCE,
        field("ts_ms", "int64"),
        field("databaseName", "string", optional=True),
        field("schemaName", "string", optional=True),
        field("ddl", "string", optional=True),
        {"type": "array", "items": _CHANGE, "optional": False, "field": "tableChanges"},
    ],
    f"{_NAME}Value",
) | {"version": 1}
_KEY: Final[Schema] = struct([field("databaseName", "string")], f"{_NAME}Key") | {"version": 1}


def ddl_message(
    change: SchemaChange, tables: Collection[TableName], settings: DebeziumSettings, build_ms: int
) -> Message:
    """The message about ``tables`` of those that the change touches, under routed names."""
    names = TargetRouter.of(settings.dispatchers, case_sensitive=settings.case_sensitive)
    named = [name for name in change.tables if name in tables]
    targets = [names.target(*name) for name in named]
    database = targets[0][0] if targets else names.target_schema(next(iter(change.schemas), ""))
    ms = physical_ms(change.ts)
    source = {
        "version": cdc.__version__,
        "connector": CONNECTOR,
        "name": settings.name,
        "ts_ms": ms,
        "snapshot": "false",
        "db": database,
        "sequence": None,
        "ts_us": ms * 1000,
        "ts_ns": ms * 1_000_000,
        "table": ",".join(table for _, table in targets) or None,
        "server_id": 0,
        "gtid": None,
        "file": "",
        "pos": 0,
        "row": 0,
        "thread": None,
        "query": None,
        "commit_ts": change.ts,
    }
    value = {
        "source": source,
        "ts_ms": build_ms,
        "databaseName": database,
        "schemaName": None,
        "ddl": statement_text(change, named, names),
        "tableChanges": [],
    }

    def text(described: Schema, payload: dict[str, Any]) -> bytes:
        bare = settings.debezium_disable_schema
        whole = payload if bare else {"schema": described, "payload": payload}
        return json_text(whole).encode()

    return Message(text(_KEY, {"databaseName": database}), text(_VALUE, value))
