"""Functions of dates and times: their parts, and days between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from filter.expr.arithmetic import Server
from filter.expr.convert import refused, temporal_constant
from filter.expr.values import NULL, VALUE, Kind, Type, Value, Vector, derive

# From the packed form: ((year * 13 + month) << 5 | day) << 17 | clock, then 24 bits of micros.
_PARTS: dict[str, tuple[Kind, Callable[[Any], Any]]] = {
    "YEAR": (Kind.DATETIME, lambda v: (v >> 46) // 13),
    "MONTH": (Kind.DATETIME, lambda v: (v >> 46) % 13),
    "DAY": (Kind.DATETIME, lambda v: v >> 41 & 31),
    "DAYOFMONTH": (Kind.DATETIME, lambda v: v >> 41 & 31),
    "QUARTER": (Kind.DATETIME, lambda v: ((v >> 46) % 13 + 2) // 3),
    "HOUR": (Kind.TIME, lambda v: v >> 36 & 1023),
    "MINUTE": (Kind.TIME, lambda v: v >> 30 & 63),
    "SECOND": (Kind.TIME, lambda v: v >> 24 & 63),
    "MICROSECOND": (Kind.TIME, lambda v: v & 0xFFFFFF),
}
DATE_PARTS = tuple(_PARTS)


def day(value: Value, at: int) -> Value:
    """DATE(value)."""
    if value.type.kind is Kind.STRING and isinstance(value.literal, str):
        value = temporal_constant(value, Kind.DATETIME)
    if value.type.kind is not Kind.DATETIME:
        raise refused(f"DATE of a {value.type.kind.value}", at, "use a date column")
    type_ = Type(Kind.DATETIME, is_date=True)
    return derive(type_, [value], lambda v: Vector(v.data >> 41 << 41, v.state), at)


def part(name: str, value: Value, server: Server, at: int) -> Value:
    """YEAR(value) and the like."""
    if value.type.kind is Kind.STRING and isinstance(value.literal, str):
        value = temporal_constant(value, Kind.DATETIME)
    kind = value.type.kind
    wanted, run = _PARTS[name]
    if kind is not wanted and not (wanted is Kind.TIME and kind is Kind.DATETIME):
        raise refused(f"{name} of a {kind.value}", at, "use a date or time column")
    mask = (1 << 41) - 1

    def parts(v: Vector) -> Vector:
        data = v.data
        if wanted is Kind.TIME:
            data = data & mask if kind is Kind.DATETIME else abs(data)
        return Vector(run(data), v.state)

    mixed = name == "YEAR" and server.unsigned_years
    return derive(Type(Kind.INT, digits=10, mixed=mixed), [value], parts, at)


def _dated(value: Value, name: str, at: int) -> Value:
    if value.type.kind is Kind.STRING:
        value = temporal_constant(value, Kind.DATETIME)
    if value.type.kind is not Kind.DATETIME:
        raise refused(f"{name} of a {value.type.kind.value}", at, "use a date column")
    return value


def _fields(packed: Any) -> tuple[Any, Any, Any]:
    ym = packed >> 46
    return ym // 13, ym % 13, packed >> 41 & 31


def _number(year: Any, month: Any, day: Any) -> Any:
    """Days since year 0 as the servers count them."""
    early = month <= 2
    days = 365 * year + 31 * (month - 1) + day
    y = np.where(early, year - 1, year)
    days = days - np.where(early, 0, (month * 4 + 23) // 10)
    # Division that goes towards zero: only the year before 0 is below it.
    y = np.maximum(y, 0)
    return days + y // 4 - (y // 100 + 1) * 3 // 4


def _state(v: Vector, year: Any, month: Any, day: Any) -> Any:
    """Dates with a part that is zero have no number: NULL."""
    lost = (month == 0) | (day == 0)
    return np.where((v.state == VALUE) & lost, NULL, v.state).astype(np.uint8)


def day_number(value: Value, at: int) -> Value:
    """TO_DAYS."""

    def run(v: Vector) -> Vector:
        fields = _fields(v.data)
        return Vector(_number(*fields), _state(v, *fields))

    return derive(Type(Kind.INT, digits=10), [_dated(value, "TO_DAYS", at)], run, at)


def days_between(left: Value, right: Value, at: int) -> Value:
    """DATEDIFF."""

    def run(a: Vector, b: Vector) -> Vector:
        x, y = _fields(a.data), _fields(b.data)
        state = np.maximum(_state(a, *x), _state(b, *y))
        return Vector(_number(*x) - _number(*y), state)

    args = [_dated(left, "DATEDIFF", at), _dated(right, "DATEDIFF", at)]
    return derive(Type(Kind.INT, digits=10), args, run, at)


def day_of(name: str, value: Value, at: int) -> Value:
    """DAYOFWEEK (1 is Sunday), WEEKDAY (0 is Monday) and DAYOFYEAR."""

    def run(v: Vector) -> Vector:
        year, month, day = _fields(v.data)
        number = _number(year, month, day)
        if name == "DAYOFYEAR":
            found = number - _number(year, month * 0 + 1, day * 0 + 1) + 1
        elif name == "WEEKDAY":
            found = (number + 5) % 7
        else:
            found = (number + 6) % 7 + 1
        return Vector(found, _state(v, year, month, day))

    return derive(Type(Kind.INT, digits=4), [_dated(value, name, at)], run, at)
