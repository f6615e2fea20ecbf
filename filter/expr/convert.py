"""Implicit conversions between kinds of values, as the servers do them."""

from __future__ import annotations

import re
from datetime import date

import numpy as np
import numpy.typing as npt

from cdc.kernels import expr_text
from filter.expr import decimals
from filter.expr.collations import SINGLE, UTF8
from filter.expr.errors import ExpressionNotSupported
from filter.expr.values import (
    BOOLEAN,
    Kind,
    Text,
    Type,
    Value,
    Vector,
    derive,
    no_state,
)

NUMBER = re.compile(rb"[ \t\n\v\f\r]*(([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?)")
"""The number that a text begins with: all of it, sign, digits before the point and behind (with
none before: the next group), exponent."""
_WHOLE = re.compile(r"\s*[+-]?\d{1,20}")
_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?"
)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?")


def refused(what: str, at: int, hint: str) -> ExpressionNotSupported:
    """An expression that is not evaluated."""
    return ExpressionNotSupported(what, position=f"offset {at}", hint=hint)


def numeric(value: Value) -> Value:
    """The value where a number is wanted: the number of an enum, set or 0x literal."""
    return value.number if value.number is not None else value


def to_real(value: Value) -> Value:
    """As a double; text gives the number that it begins with."""
    value = numeric(value)
    type_, kind = value.type, value.type.kind
    if kind in (Kind.REAL, Kind.NULL):
        return value
    if kind is Kind.INT:
        real = Type(Kind.REAL, decimals=0)
        return derive(real, [value], lambda v: Vector(v.data.astype(np.float64), v.state), value.at)
    if kind is Kind.DECIMAL:
        real = Type(Kind.REAL, decimals=type_.scale)
        points = decimals.limbs_of(type_.digits, type_.scale)[1]
        return derive(
            real,
            [value],
            lambda v: Vector(decimals.to_real(v.data, points, type_.scale), v.state),
            value.at,
        )
    if type_.charset == "binary" and value.column is None and not value.constant:
        # MariaDB rounds what BINARY gives.
        raise refused("BINARY as a number", value.at, "leave BINARY out")
    if kind is Kind.STRING and (type_.charset in UTF8 | SINGLE or type_.charset == "binary"):
        return derive(Type(Kind.REAL), [value], _numbers, value.at)
    raise refused(f"a {kind.value} as a number", value.at, "compare it with its own kind")


def _numbers(v: Vector) -> Vector:
    text: Text = v.data
    out = np.empty(len(text.starts), np.float64)
    long = np.empty(len(text.starts), np.bool_)
    if expr_text.numbers(text.buf, text.starts, text.lengths, out, long):
        for i in np.flatnonzero(long):
            # Rare: more digits than a double holds.
            found = NUMBER.match(text.value(int(i)))
            number = float(found.group(1)) if found else 0.0
            out[i] = np.clip(number, -np.finfo(np.float64).max, np.finfo(np.float64).max)
    return Vector(out, v.state)


def to_decimal(value: Value) -> Value:
    """An INT or DECIMAL as a DECIMAL."""
    value = numeric(value)
    if value.type.kind is Kind.INT:
        type_ = Type(Kind.DECIMAL, digits=20, scale=0)
        return derive(
            type_, [value], lambda v: Vector(decimals.from_ints(v.data), v.state), value.at
        )
    return value


def truth(value: Value) -> Value:
    """As a condition: bool data. NULL stays NULL."""
    value = numeric(value)
    kind = value.type.kind
    if kind is Kind.STRING:
        value = to_real(value)
    elif kind is Kind.TIME:
        raise refused("a time as a condition", value.at, "compare it")
    if kind is Kind.DECIMAL:
        return derive(
            BOOLEAN, [value], lambda v: Vector((v.data != 0).any(axis=0), v.state), value.at
        )

    def nonzero(v: Vector) -> Vector:
        return v if v.data.dtype == np.bool_ else Vector(v.data != 0, v.state)

    return derive(BOOLEAN, [value], nonzero, value.at)


def whole_number(text: str) -> int | None:
    """The integer that a text is, all of it; None if it is anything else."""
    return int(text) if _WHOLE.fullmatch(text) else None


def _micros(fraction: str | None) -> int:
    return int((fraction or "0").ljust(6, "0"))


def parse_datetime(text: str) -> tuple[int, bool] | None:
    """The packed form of a plainly written, valid date or date with time; and if it is a date."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(g or 0) for g in found.groups()[:6])
    try:
        date(year, month, day)
    except ValueError:
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    packed = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
    return packed << 24 | _micros(found.group(7)), found.group(4) is None


def parse_time(text: str) -> int | None:
    """The packed form of a plainly written time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(g or 0) for g in found.groups()[1:4])
    if hour > 838 or minute > 59 or second > 59:
        return None
    packed = (hour << 12 | minute << 6 | second) << 24 | _micros(found.group(5))
    return -packed if found.group(1) else packed


def constant_int(number: int, type_: Type, at: int) -> Value:
    """One integer for all rows."""
    dtype: npt.DTypeLike = np.uint64 if type_.unsigned else np.int64
    data = np.array([number], dtype)
    return Value(type_, lambda _: Vector(data, no_state()), at=at, constant=True, literal=number)


def temporal_constant(value: Value, kind: Kind) -> Value:
    """A text literal as DATETIME or TIME; refused unless every server reads it the same way."""
    text = value.literal
    if not isinstance(text, str):
        raise refused(
            "text that is no literal compared with a date or time", value.at,
            "compare with a literal such as '2026-01-31 10:00:00'",
        )  # fmt: skip
    if kind is Kind.TIME:
        packed = parse_time(text)
        if packed is not None:
            return constant_int(packed, Type(Kind.TIME), value.at)
        form = "'10:00:00'"
    else:
        found = parse_datetime(text)
        if found is not None:
            return constant_int(found[0], Type(Kind.DATETIME, is_date=found[1]), value.at)
        form = "'2026-01-31' or '2026-01-31 10:00:00'"
    raise refused(f"{text!r} as a {kind.value}", value.at, f"write it as {form}")
