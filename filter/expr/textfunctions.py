"""Functions that make text of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cdc.kernels import expr_strings, expr_text
from cdc.kernels.collations import cases, latin1_cases
from filter.expr.arithmetic import bits
from filter.expr.collations import UTF8
from filter.expr.convert import constant_int, numeric, refused
from filter.expr.strings import agreed, standing, under
from filter.expr.values import Kind, Strength, Text, Type, Value, Vector, derive

_NO_BYTES = np.empty(0, np.uint8)
_NO_POINTS = np.empty(0, np.int32)
_ALL = 1 << 40


def _text(value: Value, name: str, at: int) -> Type:
    type_ = value.type
    if type_.kind is not Kind.STRING or type_.charset == "set":
        raise refused(f"{name} of something that is no text", at, "use a text column")
    return standing(type_, at)


def _kind(type_: Type) -> int:
    return expr_text.UTF8_BIN if type_.charset in UTF8 else expr_text.BYTES_ONLY


def _count(value: Value, name: str, at: int) -> Value:
    value = numeric(value)
    if value.type.kind is not Kind.INT:
        raise refused(f"{name} with a number that is no integer", at, "write an integer")
    return value


def _counts(vector: Vector, value: Value) -> Any:
    found = bits(vector.data)
    if value.type.unsigned:
        return np.where(found < 0, _ALL, np.minimum(found, _ALL))
    return np.clip(found, -_ALL, _ALL)


def substring(args: Sequence[Value], at: int, name: str = "SUBSTRING") -> Value:
    """SUBSTRING(text, first[, count])."""
    type_ = _text(args[0], name, at)
    first = _count(args[1], name, at)
    count = constant_int(_ALL, Type(Kind.INT), at) if len(args) < 3 else _count(args[2], name, at)
    return _part(args[0], type_, first, count, at)


def left(args: Sequence[Value], at: int) -> Value:
    """LEFT(text, count)."""
    type_ = _text(args[0], "LEFT", at)
    return _part(
        args[0], type_, constant_int(1, Type(Kind.INT), at), _count(args[1], "LEFT", at), at
    )


def right(args: Sequence[Value], at: int) -> Value:
    """RIGHT(text, count)."""
    type_ = _text(args[0], "RIGHT", at)
    count = _count(args[1], "RIGHT", at)
    kind = _kind(type_)

    def run(v: Vector, c: Vector) -> Vector:
        n = max(v.state.size, c.state.size)
        text: Text = v.data
        sizes = np.empty(len(text.starts), np.int64)
        expr_text.characters(text.buf, text.starts, text.lengths, kind, sizes)
        wanted = _counts(c, count)
        first = np.maximum(sizes - np.maximum(wanted, 0), 0) + 1
        return _cut(v, kind, first, np.array([_ALL]), np.maximum(v.state, c.state), n)

    return derive(type_, [args[0], count], run, at)


def _part(value: Value, type_: Type, first: Value, count: Value, at: int) -> Value:
    kind = _kind(type_)

    def run(v: Vector, f: Vector, c: Vector) -> Vector:
        n = max(v.state.size, f.state.size, c.state.size)
        state = np.maximum(np.maximum(v.state, f.state), c.state)
        return _cut(v, kind, _counts(f, first), _counts(c, count), state, n)

    return derive(type_, [value, first, count], run, at)


def _cut(v: Vector, kind: int, first: Any, count: Any, state: Any, n: int) -> Vector:
    text: Text = v.data
    starts, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
    expr_strings.part(text.buf, text.starts, text.lengths, kind, first, count, starts, lengths)
    return Vector(Text(text.buf, starts, lengths), np.broadcast_to(state, n))


def trim(args: Sequence[Value], at: int, name: str) -> Value:
    """TRIM, LTRIM and RTRIM of spaces."""
    type_ = _text(args[0], name, at)
    on_left, on_right = int(name != "RTRIM"), int(name != "LTRIM")

    def run(v: Vector) -> Vector:
        text: Text = v.data
        n = len(text.starts)
        starts, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
        expr_strings.trim(text.buf, text.starts, text.lengths, on_left, on_right, starts, lengths)
        return Vector(Text(text.buf, starts, lengths), v.state)

    return derive(type_, [args[0]], run, at)


def change_case(args: Sequence[Value], at: int, lower: bool) -> Value:
    """LOWER and UPPER; they leave bytes as they are."""
    name = "LOWER" if lower else "UPPER"
    type_ = _text(args[0], name, at)
    if type_.charset == "binary":
        if args[0].number is not None:
            raise refused(f"{name} of a binary literal", at, "write it as text")
        return args[0]
    table, points = _NO_BYTES, _NO_POINTS
    family = next((f for f in ("0900", "uca1400") if f in type_.collation), "general")
    # Only MariaDB's uca1400 makes room for what grows, at most from two bytes to three.
    room_for = 2 if family == "uca1400" else 1
    if type_.charset in UTF8:
        points = cases(lower, family)
    elif type_.charset == "latin1":
        table = latin1_cases(lower)
    else:
        raise refused(f"{name} of text of {type_.charset}", at, "compare it without case")

    def run(v: Vector) -> Vector:
        text: Text = v.data
        n = len(text.starts)
        starts, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
        room = int(text.lengths.clip(0).sum()) if len(text.lengths) else 0
        out = np.empty(room_for * room + 16, np.uint8)
        expr_strings.change_case(
            text.buf, text.starts, text.lengths, table, points, room_for, out, starts, lengths
        )
        return Vector(Text(out, starts, lengths), v.state)

    return derive(type_, [args[0]], run, at)


def concat(args: Sequence[Value], at: int) -> Value:
    """CONCAT of texts; NULL if any of them is."""
    for a in args:
        _text(a, "CONCAT", at)
        if a.number is not None and a.column is None:
            raise refused("CONCAT with a binary literal", at, "write text")
    type_ = agreed(args, at)
    texts = [under(a, type_) for a in args]

    def run(*found: Vector) -> Vector:
        n = max(f.state.size for f in found)
        state = np.zeros(n, np.uint8)
        sizes = np.zeros(n, np.int64)
        for f in found:
            state = np.maximum(state, f.state)
            sizes = sizes + np.where(f.data.starts < 0, 0, f.data.lengths)
        starts = np.cumsum(sizes) - sizes
        ends = starts.copy()
        out = np.empty(int(sizes.sum()) + 16, np.uint8)
        for f in found:
            expr_strings.append(f.data.buf, f.data.starts, f.data.lengths, out, ends)
        return Vector(Text(out, starts, ends - starts), state)

    return derive(type_, texts, run, at)


def as_bytes(value: Value, at: int) -> Value:
    """BINARY text: its bytes, which compare as numbers and end where they end."""
    type_ = _text(value, "BINARY", at)
    if value.type.strength is Strength.LITERAL or value.number is not None:
        raise refused("BINARY of a literal", at, "put it before the column")
    changed = replace(type_, charset="binary", collation="binary", strength=Strength.COLUMN)
    return derive(changed, [value], lambda v: v, at)
