"""A ``Table`` as JSON and back, exactly: what a snapshot keeps of tables that statements have made.

Fields that have their default are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from cdc.schema.table import Column, Generated, Index, Partition, Partitioning, Table


def encode(table: Table) -> dict[str, Any]:
    """The table as values that JSON has."""
    encoded: dict[str, Any] = _plain(table)
    return encoded


def decode(value: Mapping[str, Any], columns: dict[Column, Column] | None = None) -> Table:
    """The table of :func:`encode`; columns that are in ``columns`` already are shared with it."""
    given = _tuples(value)
    known = {} if columns is None else columns
    made = (_column(c) for c in value["columns"])
    given["columns"] = tuple(known.setdefault(c, c) for c in made)
    given["indexes"] = tuple(Index(**_tuples(i)) for i in value.get("indexes", ()))
    if value.get("partitioning") is not None:
        given["partitioning"] = _partitioning(value["partitioning"])
    return Table(**given)


def _column(value: Mapping[str, Any]) -> Column:
    given = _tuples(value)
    if "generated" in given:
        given["generated"] = Generated(given["generated"])
    return Column(**given)


def _partitioning(value: Mapping[str, Any]) -> Partitioning:
    given = _tuples(value)
    parts = value.get("partitions", ())
    return Partitioning(**{**given, "partitions": tuple(Partition(**_tuples(p)) for p in parts)})


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        found = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: _plain(v) for f, v in found if f.default is MISSING or v != f.default}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Generated) else value


def _tuples(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with JSON's lists as the tuples that they were."""
    return {name: _tuple(v) for name, v in value.items()}


def _tuple(value: Any) -> Any:
    return tuple(_tuple(v) for v in value) if isinstance(value, list) else value
