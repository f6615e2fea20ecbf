"""Schemas of Debezium's messages, as the JSON converter of Kafka Connect writes them.

The source block has Debezium's fields, and ``commit_ts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Schema = dict[str, Any]

CONNECTOR: Final = "tidegate"


def field(name: str, kind: str, *, optional: bool = False) -> Schema:
    """A field of a struct."""
    return {"type": kind, "optional": optional, "field": name}


_SNAPSHOT: Final[Schema] = {
    "type": "string",
    "optional": True,
    "name": "io.debezium.data.Enum",
    "version": 1,
    "parameters": {
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,"
        "incremental"
    },
    "default": "false",
    "field": "snapshot",
}
SOURCE: Final[Schema] = {
    "type": "struct",
    "fields": [
        field("version", "string"),
        field("connector", "string"),
        field("name", "string"),
        field("ts_ms", "int64"),
        _SNAPSHOT,
        field("db", "string"),
        field("sequence", "string", optional=True),
        field("ts_us", "int64", optional=True),
        field("ts_ns", "int64", optional=True),
        field("table", "string", optional=True),
        field("server_id", "int64"),
        field("gtid", "string", optional=True),
        field("file", "string"),
        field("pos", "int64"),
        field("row", "int32"),
        field("thread", "int64", optional=True),
        field("query", "string", optional=True),
        field("commit_ts", "int64"),
    ],
    "optional": False,
    "name": "io.debezium.connector.mysql.Source",
    "version": 1,
    "field": "source",
}
_TRANSACTION: Final[Schema] = {
    "type": "struct",
    "fields": [
        field("id", "string"),
        field("total_order", "int64"),
        field("data_collection_order", "int64"),
    ],
    "optional": True,
    "name": "event.block",
    "version": 1,
    "field": "transaction",
}


def struct(fields: Sequence[Schema], name: str) -> Schema:
    """A struct of fields that must be there."""
    return {"type": "struct", "fields": list(fields), "optional": False, "name": name}


def envelope(name: str, fields: Sequence[Schema]) -> Schema:
    """The schema of a row's message; ``name`` is ``<prefix>.<database>.<table>``."""

    def row(place: str) -> Schema:
        return struct(fields, f"{name}.Value") | {"optional": True, "field": place}

    shown = [
        row("before"),
        row("after"),
        SOURCE,
        _TRANSACTION,
        field("op", "string"),
        *(field(f"ts_{unit}", "int64", optional=True) for unit in ("ms", "us", "ns")),
    ]
    return struct(shown, f"{name}.Envelope") | {"version": 2}
