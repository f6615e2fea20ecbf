"""The form of each column's values, and its type as a schema of Kafka Connect.

As Debezium's MySQL connector with its defaults:
https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-data-types
"""

from __future__ import annotations

from typing import Any, Final

from cdc.kernels import debezium_layout as D  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.storage import ColumnTypeNotSupported, Storage
from cdc.schema.table import Column

Schema = dict[str, Any]

_INTEGERS: Final = {
    L.OP_INT8: "int16",
    L.OP_UINT8: "int16",
    L.OP_INT16: "int16",
    L.OP_UINT16: "int32",
    L.OP_INT24: "int32",
    L.OP_UINT24: "int32",
    L.OP_INT32: "int32",
    L.OP_UINT32: "int64",
    L.OP_INT64: "int64",
    L.OP_UINT64: "int64",
}
_PLAIN: Final = {
    L.OP_DOUBLE: (D.FORM_DOUBLE, "double", ""),
    L.OP_UTF8: (D.FORM_UTF8, "string", ""),
    L.OP_TEXT: (D.FORM_TEXT, "string", ""),
    L.OP_BINARY: (D.FORM_BYTES, "bytes", ""),
    L.OP_BINARY_PADDED: (D.FORM_PADDED, "bytes", ""),
    L.OP_TIMESTAMP2: (D.FORM_TIMESTAMP, "string", "io.debezium.time.ZonedTimestamp"),
    L.OP_DATE: (D.FORM_DATE, "int32", "io.debezium.time.Date"),
    L.OP_TIME2: (D.FORM_TIME, "int64", "io.debezium.time.MicroTime"),
    L.OP_YEAR: (D.FORM_YEAR, "int32", "io.debezium.time.Year"),
    L.OP_JSON: (D.FORM_JSON, "string", "io.debezium.data.Json"),
}
# Stored as plain bytes, but no bytes to Debezium.
_OTHERS: Final = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
        *("multipolygon", "geometrycollection", "geomcollection"),
    }
)


def form(column: Column, stored: Storage) -> int:
    """FORM_* of a column. Raises ``ColumnTypeNotSupported``, whose object is its name."""
    return _form(column, stored)[0]


def schema(column: Column, stored: Storage, *, optional: bool) -> Schema:
    """The type of a column as a field of a struct."""
    _, kind, name, parameters = _form(column, stored)
    found: Schema = {"type": kind, "optional": optional}
    if name:
        found |= {"name": name, "version": 1}
    if parameters:
        found["parameters"] = parameters
    return found | {"field": column.name}


def member_text(member: str) -> str:
    """A member of an ENUM as Debezium writes it: lists of members are split at commas."""
    return member.replace(",", "\\,")


def _form(column: Column, stored: Storage) -> tuple[int, str, str, dict[str, str]]:
    op = stored.op
    if op in _INTEGERS:
        return D.FORM_INTEGER, _INTEGERS[op], "", {}
    if op in _PLAIN and column.data_type not in _OTHERS:
        return *_PLAIN[op], {}
    if op == L.OP_DATETIME2:
        unit = "Timestamp" if stored.a <= 3 else "MicroTimestamp"
        return D.FORM_DATETIME, "int64", f"io.debezium.time.{unit}", {}
    if op == L.OP_DECIMAL:
        parameters = {"scale": str(stored.b), "connect.decimal.precision": str(stored.a)}
        return D.FORM_DECIMAL, "bytes", "org.apache.kafka.connect.data.Decimal", parameters
    if op == L.OP_FLOAT:
        if column.scale is None:
            return D.FORM_FLOAT, "float", "", {}
        return D.FORM_WIDE_FLOAT, "double", "", {}
    if op == L.OP_BIT:
        bits = column.length or 1
        if bits == 1:
            return D.FORM_BOOLEAN, "boolean", "", {}
        return D.FORM_BITS, "bytes", "io.debezium.data.Bits", {"length": str(bits)}
    if op in (L.OP_ENUM, L.OP_SET):
        enum = op == L.OP_ENUM
        allowed = {"allowed": ",".join(map(member_text, column.members))}
        name = f"io.debezium.data.Enum{'' if enum else 'Set'}"
        return D.FORM_ENUM if enum else D.FORM_SET, "string", name, allowed
    raise ColumnTypeNotSupported(
        f"debezium has no form for values of type {column.column_type} yet",
        object=column.name,
        hint="leave the column out by sink.column-selectors, or use protocol=canal-json",
    )
