"""Functions of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from filter.expr import decimals
from filter.expr.arithmetic import Server, operand
from filter.expr.convert import refused
from filter.expr.values import FAILED, VALUE, Ints, Kind, Type, Value, Vector, derive

_LONGEST = 18
"""With more digits the whole part stays a decimal; the next whole number may have one more."""
_SURE = 17


def absolute(value: Value, at: int) -> Value:
    """ABS."""
    value = operand(value)
    kind, unsigned = value.type.kind, value.type.unsigned

    def run(v: Vector) -> Vector:
        if kind is Kind.REAL:
            return Vector(np.abs(v.data), v.state)
        if kind is Kind.DECIMAL:
            return Vector(np.where(v.data[-1] < 0, decimals.negate(v.data), v.data), v.state)
        if unsigned or v.data.dtype == np.bool_:
            return v
        lowest = v.data == np.iinfo(np.int64).min
        state = np.where(lowest & (v.state == VALUE), FAILED, v.state).astype(np.uint8)
        return Vector(np.abs(v.data), state)

    return derive(value.type, [value], run, at, may_fail=kind is Kind.INT)


def sign(value: Value, at: int) -> Value:
    """SIGN."""
    value = operand(value)
    kind = value.type.kind

    def run(v: Vector) -> Vector:
        if kind is Kind.DECIMAL:
            return Vector(decimals.sign(v.data).astype(np.int64), v.state)
        if v.data.dtype == np.bool_:
            return Vector(v.data.astype(np.int64), v.state)
        return Vector(np.sign(v.data).astype(np.int64), v.state)

    return derive(Type(Kind.INT, digits=1), [value], run, at)


def floor(value: Value, server: Server, at: int) -> Value:
    """FLOOR."""
    # Limbs are a floor already, so the fraction is just left out.
    return _to_whole(value, server, at, np.floor, lambda limbs, points: limbs[points:], grows=False)


def ceiling(value: Value, server: Server, at: int) -> Value:
    """CEILING."""

    def whole(limbs: Ints, points: int) -> Ints:
        return decimals.negate(decimals.negate(limbs)[points:])

    return _to_whole(value, server, at, np.ceil, whole, grows=True)


def _to_whole(
    value: Value,
    server: Server,
    at: int,
    real: Callable[..., Any],
    whole: Callable[[Ints, int], Ints],
    *,
    grows: bool,
) -> Value:
    """A whole number: by ``real`` of a double, by ``whole`` of a decimal's limbs.

    ``grows`` says that it may have more digits than a number above zero.
    """
    value = operand(value)
    type_ = value.type
    if type_.kind is Kind.REAL:
        return derive(Type(Kind.REAL), [value], lambda v: Vector(real(v.data), v.state), at)
    if type_.kind is not Kind.DECIMAL:
        return value
    points = decimals.limbs_of(type_.digits, type_.scale)[1]
    result = _whole_type(value, server, at, grows)
    if result.kind is Kind.INT:
        dtype = np.uint64 if result.unsigned else np.int64

        def narrow(v: Vector) -> Vector:
            return Vector(decimals.to_ints(whole(v.data, points)).view(dtype), v.state)

        return derive(result, [value], narrow, at)
    count = decimals.limbs_of(result.digits, 0)[0]

    def wide(v: Vector) -> Vector:
        limbs = whole(v.data, points)
        return Vector(decimals.widen(limbs, 0, max(count, len(limbs)), 0), v.state)

    return derive(result, [value], wide, at)


def _whole_type(value: Value, server: Server, at: int, grows: bool) -> Type:
    """What the servers make of a decimal: an integer if it has few digits before the point."""
    type_ = value.type
    digits = type_.digits - type_.scale
    unsigned = server.mariadb and type_.unsigned
    if value.column is None and value.literal is None:
        # Of computed numbers we know no more than that they have not more digits than this.
        if digits > _SURE:
            raise refused(f"the whole part of a computed number of {digits} digits", at,
                          "compare with a range instead")  # fmt: skip
        return Type(Kind.INT, digits=digits + 1, mixed=server.mariadb)
    if digits + (type_.scale > 0 and (grows or not unsigned)) <= _LONGEST:
        return Type(Kind.INT, unsigned=unsigned, digits=digits + 1)
    return Type(Kind.DECIMAL, unsigned=unsigned, digits=digits + 1)


def rounded(name: str, args: Sequence[Value], at: int) -> Value:
    """ROUND and TRUNCATE of integers and decimals to a literal number of decimals."""
    value = operand(args[0])
    places = args[1].literal if len(args) > 1 else 0
    type_ = value.type
    if type_.kind not in (Kind.INT, Kind.DECIMAL):
        raise refused(f"{name} of a {type_.kind.value}", at, "compare with a range instead")
    if not isinstance(places, int) or not 0 <= places <= 30:
        raise refused(f"{name} to something else than 0 to 30 decimals", at, "write them")
    if type_.kind is Kind.INT:
        return value
    if places >= type_.scale:
        return derive(replace(type_, unsigned=False), [value], lambda v: v, at)
    points = decimals.limbs_of(type_.digits, type_.scale)[1]
    digits = decimals.DIGITS * points - places
    result = Type(Kind.DECIMAL, digits=type_.digits - type_.scale + places + 1, scale=places)
    wanted = decimals.limbs_of(result.digits, result.scale)

    def run(v: Vector) -> Vector:
        negative = v.data[-1] < 0
        size = np.where(negative, decimals.negate(v.data), v.data)
        size = decimals.widen(size, points, len(size) + 1, points)
        if name == "ROUND":
            at_limb, power = divmod(digits - 1, decimals.DIGITS)
            size[at_limb] += 5 * 10**power
            decimals.settle(size)
        limb, power = divmod(digits, decimals.DIGITS)
        size[:limb] = 0
        size[limb] -= size[limb] % 10**power
        size = np.where(negative, decimals.negate(size), size)
        low = points - wanted[1]
        kept = decimals.widen(size[low:], wanted[1], max(wanted[0], len(size) - low), wanted[1])
        while len(kept) > wanted[0]:
            kept[-2] += kept[-1] * decimals.BASE
            kept = kept[:-1]
        return Vector(kept, v.state)

    return derive(result, [value], run, at)
