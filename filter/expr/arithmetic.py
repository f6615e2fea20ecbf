"""``+ - * / DIV %`` and bit operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cdc.kernels import expr_numbers
from filter.expr import decimals
from filter.expr.convert import numeric, refused, to_decimal, to_real
from filter.expr.values import FAILED, NULL, VALUE, Ints, Kind, Type, Value, Vector, derive

MAX_DIGITS = 65
MAX_SCALE = 30
_LOWEST = np.iinfo(np.int64).min


class Server(NamedTuple):
    """What arithmetic and comparison depend on.

    The family, and whether it is MariaDB or MySQL before 8; MariaDB that compares texts and
    integers as decimals, and has a lowest quotient; whether it compares constant texts and decimals
    so; whether it evaluates a list also where what is looked for is NULL; whether YEAR gives an
    unsigned number in some of its versions.
    """

    mariadb: bool
    careless: bool
    recent_mariadb: bool = False
    decimal_constants: bool = False
    whole_lists: bool = False
    unsigned_years: bool = False


_CODES = {
    "+": expr_numbers.ADD,
    "-": expr_numbers.SUBTRACT,
    "*": expr_numbers.MULTIPLY,
    "DIV": expr_numbers.DIVIDE,
    "%": expr_numbers.MODULO,
}
_REAL: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def operand(value: Value) -> Value:
    """A value that takes part in arithmetic; text, enum and set are doubles there."""
    if value.type.kind is Kind.STRING and value.number is not None and value.constant:
        raise refused("arithmetic with a binary literal", value.at, "write a number")
    if value.type.mixed:
        raise refused("arithmetic with what may be signed or unsigned", value.at,
                      "compare it, or compute with columns")  # fmt: skip
    if value.type.kind in (Kind.DATETIME, Kind.TIME):
        raise refused(
            f"arithmetic with a {value.type.kind.value}", value.at, "compare it with a literal"
        )
    return to_real(value) if value.type.kind is Kind.STRING else value


def binary(op: str, left: Value, right: Value, server: Server, at: int) -> Value:
    """The value of ``left op right``."""
    if op in _BITS:
        return _bits(op, left, right, server, at)
    a, b = operand(left), operand(right)
    kinds = {a.type.kind, b.type.kind} - {Kind.NULL}
    if Kind.NULL in (a.type.kind, b.type.kind):
        raise refused("arithmetic with NULL", at, "it is always NULL")
    if Kind.REAL in kinds:
        return _real(op, to_real(a), to_real(b), at)
    if op == "/":
        raise refused(
            "/ of exact numbers", at, "multiply the other side, or write one number as 1e0"
        )
    if kinds == {Kind.INT}:
        return _integer(op, a, b, server, at)
    return _decimal(op, a, b, server, at)


def negative(value: Value, at: int) -> Value:
    """-value."""
    value = operand(value)
    type_, kind = value.type, value.type.kind
    if kind is Kind.REAL:
        return derive(type_, [value], lambda v: Vector(-v.data, v.state), at)
    if kind is Kind.DECIMAL:
        type_ = replace(type_, unsigned=False)
        return derive(type_, [value], lambda v: Vector(decimals.negate(v.data), v.state), at)
    if kind is Kind.NULL:
        return value
    if value.constant:
        raise refused("the sign of a computed number", at, "write the number")
    zero = np.zeros(1, np.int64)
    unsigned = int(type_.unsigned)

    def run(v: Vector) -> Vector:
        state = v.state.copy()
        out = np.empty(len(v.data), np.int64)
        expr_numbers.arithmetic(
            expr_numbers.SUBTRACT, zero, 0, bits(v.data), unsigned, 0, out, state
        )
        return Vector(out, state)

    return derive(Type(Kind.INT, digits=20), [value], run, at, may_fail=True)


def bits(data: Any) -> Ints:
    """Integers of any vector as int64 bits."""
    if data.dtype == np.bool_:
        return data.astype(np.int64)  # type: ignore[no-any-return]
    return data.view(np.int64)  # type: ignore[no-any-return]


def _both(a: Vector, b: Vector) -> tuple[int, Any]:
    n = max(a.state.size, b.state.size)
    return n, np.ascontiguousarray(np.broadcast_to(np.maximum(a.state, b.state), n)).copy()


def _integer(op: str, a: Value, b: Value, server: Server, at: int) -> Value:
    ua, ub = a.type.unsigned, b.type.unsigned
    unsigned = ua if op == "%" else ua or ub
    code = _CODES[op]
    edge = not server.recent_mariadb and op == "DIV" and not unsigned
    wraps = server.careless and op == "-" and not ua and not ub

    def run(x: Vector, y: Vector) -> Vector:
        n, state = _both(x, y)
        out = np.empty(n, np.int64)
        expr_numbers.arithmetic(code, bits(x.data), ua, bits(y.data), ub, unsigned, out, state)
        if edge:
            # MySQL and MariaDB 10.4 take no quotient that is the lowest integer.
            state[(bits(out) == _LOWEST) & (state == VALUE)] = FAILED
        if wraps:
            # MariaDB and MySQL 5 let this one difference pass.
            lowest = (bits(x.data) == 0) & (bits(y.data) == _LOWEST) & (state == FAILED)
            out[lowest], state[lowest] = _LOWEST, VALUE
        return Vector(out.view(np.uint64) if unsigned else out, state)

    return derive(Type(Kind.INT, unsigned=unsigned, digits=20), [a, b], run, at, may_fail=True)


def _decimals_of(op: str, a: Value, b: Value) -> int | None:
    x, y = a.type.decimals, b.type.decimals
    if x is None or y is None:
        return None
    return x + y if op == "*" else max(x, y)


def _real(op: str, a: Value, b: Value, at: int) -> Value:
    if op not in _REAL:
        raise refused(f"{op} of floating-point numbers", at, "use integers")
    if _decimals_of(op, a, b) is not None:
        raise refused("arithmetic with FLOAT(M,D) or DOUBLE(M,D)", at, "compare the column itself")
    run_op = _REAL[op]

    def run(x: Vector, y: Vector) -> Vector:
        _, state = _both(x, y)
        with np.errstate(all="ignore"):
            out = run_op(x.data, y.data)
        if op == "/":
            zero = np.broadcast_to(y.data == 0, state.shape)
            state[(state == 0) & zero] = NULL
        state[(state == 0) & ~np.isfinite(np.broadcast_to(out, state.shape))] = FAILED
        return Vector(np.where(np.isfinite(out), out, 0.0), state)

    return derive(Type(Kind.REAL), [a, b], run, at, may_fail=True)


def _decimal(op: str, a: Value, b: Value, server: Server, at: int) -> Value:
    if op not in ("+", "-", "*"):
        raise refused(f"{op} of decimals", at, "use integers")
    # MySQL 8 has no number below zero for a difference of unsigned ones.
    unsigned = not server.careless and a.type.unsigned and b.type.unsigned
    bounded = unsigned and op == "-"
    a, b = to_decimal(a), to_decimal(b)
    ta, tb = a.type, b.type
    pa, pb = (decimals.limbs_of(t.digits, t.scale)[1] for t in (ta, tb))
    if op == "*":
        digits, scale = ta.digits + tb.digits, ta.scale + tb.scale
    else:
        scale = max(ta.scale, tb.scale)
        digits = max(ta.digits - ta.scale, tb.digits - tb.scale) + 1 + scale
    if digits > MAX_DIGITS or scale > MAX_SCALE:
        raise refused(f"a decimal of {digits} digits, {scale} behind the point", at,
                      "use numbers with fewer digits")  # fmt: skip
    count, points = decimals.limbs_of(digits, scale)

    def run(x: Vector, y: Vector) -> Vector:
        # A server looks at the right side only where the left one has a value.
        state = np.where(x.state != 0, x.state, y.state)
        if op == "*":
            out = decimals.multiply(x.data, y.data)
            got = pa + pb
        else:
            out = decimals.add(x.data, pa, decimals.negate(y.data) if op == "-" else y.data, pb)
            got = max(pa, pb)
        if bounded:
            state = np.where((state == VALUE) & (out[-1] < 0), FAILED, state).astype(np.uint8)
        return Vector(_fit(out, got, count, points), state)

    type_ = Type(Kind.DECIMAL, unsigned=unsigned, digits=digits, scale=scale)
    return derive(type_, [a, b], run, at, may_fail=bounded)


def _fit(limbs: Ints, points: int, count: int, new_points: int) -> Ints:
    """The same numbers in exactly ``count`` limbs; what is cut off is zero."""
    limbs = limbs[points - new_points :] if points > new_points else limbs
    points = min(points, new_points)
    missing = count - new_points - (len(limbs) - points)
    wide = decimals.widen(limbs, points, new_points + len(limbs) - points + max(missing, 0),
                          new_points)  # fmt: skip
    while len(wide) > count:
        # The sign goes down from a limb that holds nothing else.
        wide[-2] += wide[-1] * decimals.BASE
        wide = wide[:-1]
    return wide


_BITS: dict[str, Callable[[Any, Any], Any]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": lambda x, y: np.where(y < 64, x << np.minimum(y, np.uint64(63)), np.uint64(0)),
    ">>": lambda x, y: np.where(y < 64, x >> np.minimum(y, np.uint64(63)), np.uint64(0)),
}


def _word(value: Value, at: int) -> Value:
    value = numeric(value)
    if value.type.kind is not Kind.INT:
        raise refused(f"a bit operator on a {value.type.kind.value}", at, "use integer columns")
    return value


def _bits(op: str, left: Value, right: Value, server: Server, at: int) -> Value:
    a, b = _word(left, at), _word(right, at)
    run_op = _BITS[op]
    # MariaDB and MySQL 5 take 32 bits of the number of places.
    places = server.careless and op in ("<<", ">>")

    # Which look at the right side only where the left one has a value.
    left_first = not server.careless or op in ("&", "|")

    def run(x: Vector, y: Vector) -> Vector:
        state = np.where((x.state != 0) & left_first, x.state, np.maximum(x.state, y.state))
        right_bits = bits(y.data).view(np.uint64)
        if places:
            right_bits = right_bits & np.uint64(0xFFFFFFFF)
        out = run_op(bits(x.data).view(np.uint64), right_bits)
        return Vector(out, state)

    return derive(Type(Kind.INT, unsigned=True, digits=20), [a, b], run, at)


def inverted(value: Value, at: int) -> Value:
    """~value."""
    word = _word(value, at)
    type_ = Type(Kind.INT, unsigned=True, digits=20)
    return derive(type_, [word], lambda v: Vector(~bits(v.data).view(np.uint64), v.state), at)
