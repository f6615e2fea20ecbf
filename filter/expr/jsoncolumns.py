"""JSON columns of MySQL as values: parts of documents, their text, type and length."""

from __future__ import annotations

import numpy as np

from cdc.kernels import expr_json, expr_text
from cdc.kernels import layout as L  # noqa: N812
from cdc.schema.table import Table
from filter.expr.columns import checked, refuse, storage_of, stored_otherwise
from filter.expr.jsonpaths import Path
from filter.expr.jsontypes import COUNT, JSON, UNQUOTED, Parts, named
from filter.expr.values import (
    BOOLEAN,
    NULL,
    Frame,
    Ints,
    Kind,
    Strength,
    Text,
    Type,
    Value,
    Vector,
    derive,
)

_CHOSEN = Type(Kind.STRING, charset="utf8mb4", collation="utf8mb4_0900_bin", strength=Strength.MADE)
_VALUE_CHARACTERS = 512


def part(table: Table, ordinal: int, path: Path, at: int) -> Value:
    """JSON_EXTRACT: NULL where there is no such part; JSON's null is a value."""
    column = table.columns[ordinal]
    if column.data_type != "json":
        raise refuse(column, table, "a JSON function of what is no JSON column", at)

    def run(frame: Frame | None) -> Vector:
        assert frame is not None
        if storage_of(frame, ordinal)[0] != L.OP_JSON:
            raise stored_otherwise(frame, ordinal)
        starts, lengths, _ = frame.cells(ordinal)
        kinds, found, ends = (np.empty(frame.size, np.int64) for _ in range(3))
        checked(
            expr_json.find(
                frame.buf, starts, lengths, path.legs, path.keys, kinds, found, ends
            ), frame,
        )  # fmt: skip
        missing = (kinds == expr_json.MISSING).view(np.uint8)
        return Vector(Parts(frame.buf, kinds, found, ends), missing)

    value = Value(JSON, run, at=at)
    value.columns = frozenset({ordinal})
    return value


def unquoted(parts: Value, at: int) -> Value:
    """JSON_UNQUOTE: strings are what they say, JSON's null is the text ``null``."""

    def run(frame: Frame | None) -> Vector:
        assert frame is not None
        v = parts.of(frame)
        return Vector(_printed(v.data, frame), v.state)

    value = Value(UNQUOTED, run, at=at)
    value.columns = parts.columns
    return value


def _printed(found: Parts, frame: Frame) -> Text:
    out = np.empty(int(expr_json.room(*found[1:])) + 16, np.uint8)
    starts, lengths = (np.empty(len(found.kinds), np.int64) for _ in range(2))
    checked(expr_json.texts(*found, out, starts, lengths), frame)
    return Text(out, starts, lengths)


def chosen(parts: Value, at: int) -> Value:
    """JSON_VALUE: as JSON_UNQUOTE, but NULL for JSON's null and for more than 512 characters."""

    def run(frame: Frame | None) -> Vector:
        assert frame is not None
        v = parts.of(frame)
        text = _printed(v.data, frame)
        sizes, kinds = (np.empty(len(text.starts), np.int64) for _ in range(2))
        expr_text.characters(text.buf, text.starts, text.lengths, expr_text.UTF8_BIN, sizes)
        _types_of(v.data, kinds)
        none = (v.state == NULL) | (sizes > _VALUE_CHARACTERS) | (kinds == expr_json.T_NULL)
        starts = np.where(none, -1, text.starts)
        return Vector(Text(text.buf, starts, text.lengths), none.view(np.uint8))

    value = Value(_CHOSEN, run, at=at)
    value.columns = parts.columns
    return value


def _types_of(found: Parts, out: Ints) -> None:
    expr_json.types_of(found.buf, found.kinds, found.starts, out)


def type_name(parts: Value, at: int) -> Value:
    """JSON_TYPE."""

    def codes(v: Vector) -> Ints:
        found = np.empty(len(v.data.kinds), np.int64)
        _types_of(v.data, found)
        return found

    return named(parts, codes, UNQUOTED, at)


def length(parts: Value, at: int) -> Value:
    """JSON_LENGTH: members of an object or array, 1 of anything else."""

    def run(v: Vector) -> Vector:
        out = np.empty(len(v.data.kinds), np.int64)
        expr_json.sizes(*v.data, out)
        return Vector(out, v.state)

    return derive(COUNT, [parts], run, at)


def contains_path(document: Value, parts: list[Value], every: bool, at: int) -> Value:
    """JSON_CONTAINS_PATH: whether one or every one of the parts is there; NULL of a NULL."""

    def run(whole: Vector, *found: Vector) -> Vector:
        there = np.stack([v.state != NULL for v in found])
        return Vector(there.all(axis=0) if every else there.any(axis=0), whole.state)

    return derive(BOOLEAN, [document, *parts], run, at)


def valid(document: Value, at: int) -> Value:
    """JSON_VALID of a JSON column: true, or NULL of a NULL."""
    return derive(BOOLEAN, [document], lambda v: Vector(v.state != NULL, v.state), at)
