"""JSON of MariaDB, which is text: values found in it, as text, type and length.

Text that is no JSON is NULL to some functions. Others give what stands before the fault, or make
MariaDB 11.4 crash; these fail, unless a JSON_VALID before them keeps such rows away.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels import expr_json_text as scan
from cdc.kernels import expr_json_unquote as unquote
from cdc.kernels.expr_json import MISSING, T_NULL
from cdc.kernels.expr_json_tokens import CUT
from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.expr.columns import column_value, refuse
from filter.expr.jsonpaths import Path
from filter.expr.jsontypes import COUNT, JSON, UNQUOTED, Parts, named
from filter.expr.values import (
    BOOLEAN,
    FAILED,
    NARROW,
    NULL,
    VALUE,
    Kind,
    State,
    Text,
    Type,
    Value,
    Vector,
    derive,
)


def column(table: Table, ordinal: int, session: Session, at: int) -> Value:
    """The column in which the text of the documents stands."""
    found = column_value(table, ordinal, session, at)
    if found.type.kind is not Kind.STRING or found.type.charset != "utf8mb4":
        why = "a JSON function of what is no utf8mb4 text"
        raise refuse(table.columns[ordinal], table, why, at)
    if table.columns[ordinal].data_type in ("enum", "set"):
        raise refuse(table.columns[ordinal], table, "a JSON function of what is no text", at)
    return found


def part(text: Value, path: Path, at: int) -> Value:
    """JSON_EXTRACT: NULL where there is no such value, and of what is no JSON.

    It compares keys as they are written, with their escapes.
    """

    def run(v: Vector) -> Vector:
        found = _find(v.data, path, scan.ANY, plain=True)
        return Vector(found, _states(found))

    return derive(JSON, [text], run, at)


def searched(text: Value, path: Path, at: int, mode: int = scan.ANY) -> Value:
    """The first value that a path names, as functions find it that stop there.

    What they give for text that is no JSON depends on where they stopped, so it is FAILED.
    """

    def run(v: Vector) -> Vector:
        found = _find(v.data, path, mode, plain=False)
        state = _states(found)
        state[(found.kinds == scan.INVALID) & (v.state == VALUE)] = FAILED
        return Vector(found, state)

    return derive(JSON, [text], run, at)


def _states(found: Parts) -> State:
    # A number without digits is JSON among others and none alone, so functions differ about it, as
    # they do about keys that begin with white space.
    state = np.where(found.kinds < 0, NULL, VALUE).astype(np.uint8)
    state[(found.kinds == CUT) | (found.kinds == scan.ODD)] = FAILED
    return state


def _find(source: Text, path: Path, mode: int, plain: bool) -> Parts:
    kinds, found, ends = (np.empty(len(source.starts), np.int64) for _ in range(3))
    scan.find(
        *source, path.legs, path.keys, mode, int(plain),
        np.empty(scan.STACK, np.int64), kinds, found, ends,
    )  # fmt: skip
    return Parts(source.buf, kinds, found, ends)


def _text(found: Value, form: int, type_: Type, at: int) -> Value:
    def run(v: Vector) -> Vector:
        values: Parts = v.data
        room = 2 * int((values.ends - values.starts).sum()) + 16
        starts, lengths = (np.empty(len(values.kinds), np.int64) for _ in range(2))
        out = np.empty(room, np.uint8)
        unquote.texts(*values, form, out, starts, lengths)
        return Vector(Text(out, starts, lengths), v.state)

    return derive(type_, [found], run, at)


def unquoted(found: Value, at: int) -> Value:
    """JSON_UNQUOTE: strings are what they say, all others are JSON."""
    return _text(found, unquote.UNQUOTE, UNQUOTED, at)


def chosen(text: Value, path: Path, at: int) -> Value:
    """JSON_VALUE: the first scalar there; NULL if it is JSON's null."""

    def scalars(v: Vector) -> Vector:
        values: Parts = v.data
        none = values.kinds == T_NULL
        kinds = np.where(none, MISSING, values.kinds)
        return Vector(values._replace(kinds=kinds), np.where(none, NULL, v.state).astype(np.uint8))

    found = derive(JSON, [searched(text, path, at, scan.SCALAR)], scalars, at)
    return _text(found, unquote.VALUE, text.type, at)


def type_name(found: Value, at: int) -> Value:
    """JSON_TYPE."""
    return named(found, lambda v: v.data.kinds, NARROW, at)


def length(found: Value, at: int) -> Value:
    """JSON_LENGTH: members of an object or array, 1 of anything else."""

    def run(v: Vector) -> Vector:
        out = np.empty(len(v.data.kinds), np.int64)
        scan.sizes(*v.data, out)
        return Vector(out, v.state)

    return derive(COUNT, [found], run, at)


def valid(text: Value, whole: Value, at: int) -> Value:
    """JSON_VALID of text; NULL of a NULL."""
    return derive(BOOLEAN, [text, whole], lambda t, v: Vector(v.state != NULL, t.state), at)


def exists(found: list[Value], every: bool, at: int) -> Value:
    """Whether one or every one of the values is there; NULL of a NULL and of what is no JSON."""

    def run(*values: Vector) -> Vector:
        kinds = np.stack([v.data.kinds for v in values])
        there = kinds >= 0
        state = np.where((kinds == scan.INVALID).any(axis=0), NULL, VALUE)
        for v in values:
            state = np.where(v.state == FAILED, FAILED, state)
        result = there.all(axis=0) if every else there.any(axis=0)
        return Vector(result, state.astype(np.uint8))

    return derive(BOOLEAN, found, run, at)
