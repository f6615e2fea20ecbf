"""Comparison: as what two values are compared, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from filter.expr import decimals, textnumbers
from filter.expr.arithmetic import Server, bits
from filter.expr.convert import (
    constant_int,
    numeric,
    refused,
    temporal_constant,
    to_decimal,
    to_real,
    whole_number,
)
from filter.expr.strings import agreed, compare_texts, rule_of, together, under
from filter.expr.values import (
    BOOLEAN,
    FAILED,
    NULL,
    VALUE,
    YEAR,
    Kind,
    Type,
    Value,
    Vector,
    derive,
)

Order = Callable[[Vector, Vector], Any]
"""Two vectors → -1, 0 or 1 for each row."""

_EXACT = {Kind.INT, Kind.DECIMAL}


def comparable(
    values: Sequence[Value], server: Server, at: int, *, listed: bool = False
) -> tuple[list[Value], Order]:
    """All values in the one form in which they are compared, and the comparison.

    Two values, or the three of BETWEEN. None of them is the literal NULL. ``listed``: in a list, a
    range or CASE.
    """
    kinds = {v.type.kind for v in values}
    if kinds & {Kind.DATETIME, Kind.TIME}:
        return _temporal(values, kinds, at)
    if kinds == {Kind.STRING}:
        if all(v.number is not None and v.column is None for v in values):
            raise refused("two binary literals", at, "write numbers or text")
        type_ = agreed(values, at)
        rule = rule_of(type_)
        return [under(v, type_) for v in values], lambda a, b: compare_texts(a, b, rule)
    values = [_year(v, values, at) for v in map(_number_or_text, values)]
    kinds = {v.type.kind for v in values}
    if kinds == {Kind.INT}:
        return _integers(values)
    if kinds <= _EXACT:
        wide = [to_decimal(v) for v in values]
        points = [decimals.limbs_of(v.type.digits, v.type.scale)[1] for v in wide]
        return [_tagged(v, p) for v, p in zip(wide, points, strict=True)], _compare_decimals
    return _reals(values, server, at, listed)


def _number_or_text(value: Value) -> Value:
    # To the servers enum and set are text, which makes it a comparison of doubles.
    return numeric(value) if value.constant else value


def _year(value: Value, values: Sequence[Value], at: int) -> Value:
    if value.width == YEAR and any(v.type.kind is not Kind.INT for v in values):
        raise refused("a YEAR compared with something else than an integer", at, "write 2026")
    return value


def _integers(values: Sequence[Value]) -> tuple[list[Value], Order]:
    if any(v.width == YEAR for v in values):
        for v in values:
            if isinstance(v.literal, int) and 0 < v.literal < 1901:
                raise refused(f"{v.literal} compared with a YEAR", v.at, "write four digits")
    signs = {v.type.unsigned for v in values}
    if len(signs) == 1:
        return list(values), _plain
    return [_signed_pair(v) for v in values], _mixed


def _plain(a: Vector, b: Vector) -> Any:
    x, y = a.data, b.data
    if x.dtype == np.bool_:
        x = x.astype(np.int64)
    if y.dtype == np.bool_:
        y = y.astype(np.int64)
    return (x > y).astype(np.int8) - (x < y).astype(np.int8)


def _signed_pair(value: Value) -> Value:
    """Bits with whether the number is negative: (2, rows)."""
    unsigned = value.type.unsigned

    def run(v: Vector) -> Vector:
        word = bits(v.data)
        negative = np.zeros(len(word), np.int64) if unsigned else (word < 0).astype(np.int64)
        return Vector(np.stack([word, negative]), v.state)

    return derive(value.type, [value], run, value.at)


def _mixed(a: Vector, b: Vector) -> Any:
    x, y = a.data, b.data
    nx, ny = x[1], y[1]
    ux, uy = x[0].view(np.uint64), y[0].view(np.uint64)
    inside = (ux > uy).astype(np.int8) - (ux < uy).astype(np.int8)
    return np.where(nx == ny, inside, (ny - nx).astype(np.int8))


def _tagged(value: Value, points: int) -> Value:
    def run(v: Vector) -> Vector:
        return Vector((v.data, points), v.state)

    return derive(value.type, [value], run, value.at)


def _compare_decimals(a: Vector, b: Vector) -> Any:
    return decimals.compare(*a.data, *b.data)


def _reals(
    values: Sequence[Value], server: Server, at: int, listed: bool
) -> tuple[list[Value], Order]:
    big = [v for v in values if v.column is not None and v.width == 8]
    if big and all(v is big[0] or isinstance(v.literal, str) for v in values):
        # A BIGINT column against text: a literal is stored into the column's type first.
        return _integers([v if v is big[0] else _as_integer(v, big[0]) for v in values])
    if big and any(v.constant for v in values):
        raise refused("a BIGINT column compared with a floating-point constant", at,
                      "write an integer or a decimal")  # fmt: skip
    if any(isinstance(v.literal, str) and not v.literal.isascii() for v in values):
        raise refused("a number compared with text that is none", at, "write a number")
    if server.recent_mariadb and textnumbers.taken(values, at):
        pairs = [textnumbers.with_doubles(v) for v in values]
        return pairs, partial(textnumbers.order, listed=listed)
    if server.decimal_constants and not listed:
        exact = textnumbers.with_decimal_constant(values, server.mariadb)
        if exact is not None:
            return comparable(exact, server, at)
    real = [to_real(v) for v in values]
    fixed = [v.type.decimals for v in real]
    if None in fixed or not any(v.type.kind is Kind.REAL for v in values):
        return real, _plain
    precision = 5 / 10.0 ** (1 + max(d for d in fixed if d is not None))

    def close(a: Vector, b: Vector) -> Any:
        x, y = a.data, b.data
        same = (x == y) | (np.abs(x - y) < precision)
        return np.where(same, 0, np.where(x < y, -1, 1)).astype(np.int8)

    if len(values) > 2:
        raise refused("BETWEEN of FLOAT(M,D) or DOUBLE(M,D)", at, "write two comparisons")
    return real, close


def _as_integer(value: Value, column: Value) -> Value:
    number = whole_number(value.literal)
    low, high = (0, 1 << 64) if column.type.unsigned else (-(1 << 63), 1 << 63)
    if number is None or not low <= number < high:
        raise refused(
            f"a BIGINT column compared with {value.literal!r}", value.at, "write a number"
        )
    return constant_int(number, column.type, value.at)


def _temporal(values: Sequence[Value], kinds: set[Kind], at: int) -> tuple[list[Value], Order]:
    if {Kind.DATETIME, Kind.TIME} <= kinds:
        raise refused("a date compared with a time", at, "the result depends on today")
    if all(v.constant for v in values):
        raise refused("dates or times compared without a column", at, "leave the comparison out")
    kind = Kind.TIME if Kind.TIME in kinds else Kind.DATETIME
    if kinds - {kind, Kind.STRING}:
        raise refused(f"a {kind.value} compared with a number", at, "write it as a quoted literal")
    found = [temporal_constant(v, kind) if v.type.kind is Kind.STRING else v for v in values]
    return found, _plain


def _state(a: Vector, b: Vector) -> Any:
    # A server looks at the right side only where the left one has a value.
    return np.where(a.state != VALUE, a.state, b.state)


TESTS: dict[str, Callable[[Any], Any]] = {
    "=": lambda c: c == 0,
    "<>": lambda c: c != 0,
    "<": lambda c: c < 0,
    "<=": lambda c: c <= 0,
    ">": lambda c: c > 0,
    ">=": lambda c: c >= 0,
}
"""What each operator asks of an order: -1, 0 or 1."""


def equal(left: Value, right: Value, server: Server, at: int, *, listed: bool = True) -> Value:
    """``left = right`` in a list or CASE, where doubles of fixed decimals are not rounded."""
    fixed = [v.type.decimals for v in (left, right) if v.type.kind is Kind.REAL]
    if any(d is not None for d in fixed):
        raise refused("FLOAT(M,D) or DOUBLE(M,D) in a list", at, "write the comparisons with OR")
    return compare("=", left, right, server, at, listed=listed)


def compare(
    op: str, left: Value, right: Value, server: Server, at: int, *, listed: bool = False
) -> Value:
    """``left op right``."""
    nulls = [v.type.kind is Kind.NULL for v in (left, right)]
    if op == "<=>":
        return _null_safe(left, right, nulls, server, at)
    if any(nulls):
        other = right if nulls[0] else left
        if other.may_fail:
            raise refused("arithmetic compared with NULL", at, "it is never true")
        return derive(BOOLEAN, [other], _always_null, at)
    (a, b), order = comparable([left, right], server, at, listed=listed)
    test = TESTS[op]

    def run(x: Vector, y: Vector) -> Vector:
        return Vector(test(order(x, y)), _state(x, y))

    return derive(BOOLEAN, [a, b], run, at)


def _always_null(v: Vector) -> Vector:
    return Vector(np.zeros(v.state.size, np.bool_), np.maximum(v.state, NULL))


def _null_safe(left: Value, right: Value, nulls: list[bool], server: Server, at: int) -> Value:
    if all(nulls):
        return derive(BOOLEAN, [], lambda: Vector(np.ones(1, np.bool_), np.zeros(1, np.uint8)), at)
    if any(nulls):
        other = right if nulls[0] else left
        return derive(
            BOOLEAN, [other], lambda v: Vector(v.state == NULL, v.state & np.uint8(2)), at
        )
    (a, b), order = comparable([left, right], server, at)

    def run(x: Vector, y: Vector) -> Vector:
        null_x, null_y = x.state == NULL, y.state == NULL
        same = np.where(null_x | null_y, null_x & null_y, order(x, y) == 0)
        return Vector(same, (x.state | y.state) & np.uint8(2))

    return derive(BOOLEAN, [a, b], run, at)


def between(value: Value, low: Value, high: Value, server: Server, at: int) -> Value:
    """``value BETWEEN low AND high``: all three are compared as one kind."""
    if any(v.type.kind is Kind.NULL for v in (value, low, high)):
        raise refused("BETWEEN with NULL", at, "it is never true")
    _timed(value, [low, high], at)
    parts = (value, low, high)
    if any(v.constant and v.number is not None for v in parts) and any(
        v.type.kind is not Kind.STRING for v in parts
    ):
        raise refused("BETWEEN with a binary literal", at, "write a number")
    (v, a, b), order = comparable([value, low, high], server, at, listed=True)

    def run(x: Vector, lo: Vector, hi: Vector) -> Vector:
        above, below = order(x, lo) >= 0, order(x, hi) <= 0
        result = above & below
        n = np.broadcast(result, x.state, lo.state, hi.state).shape
        # A missing bound leaves it open, unless the other one already says no.
        state = np.where((lo.state == NULL) & (hi.state == NULL), NULL, 0)
        state = np.where((lo.state == NULL) & (hi.state == VALUE) & below, NULL, state)
        state = np.where((lo.state == VALUE) & (hi.state == NULL) & above, NULL, state)
        failed = np.maximum(lo.state, hi.state) == 2
        state = np.where(x.state != VALUE, x.state, np.where(failed, 2, state))
        result = result & (lo.state == VALUE) & (hi.state == VALUE)
        return Vector(np.broadcast_to(result, n), np.broadcast_to(state, n).astype(np.uint8))

    return derive(BOOLEAN, [v, a, b], run, at)


def within(value: Value, items: Sequence[Value], server: Server, at: int) -> Value:
    """``value IN (items)``."""
    if value.type.kind is Kind.NULL:
        raise refused("NULL IN a list", at, "it is never true")
    fast = _among(value, items, at)
    if fast is not None:
        return fast
    if len(items) > MAX_ITEMS:
        raise refused(f"IN with more than {MAX_ITEMS} values", at, "write integers, or fewer")
    same_signs(value, items, at)
    _timed(value, items, at)
    value, *items = together([value, *items], at)
    # A list of one is an operator.
    many = len(items) > 1
    tests = [equal(value, item, server, at, listed=many) for item in items]
    late = [item for item in items if item.may_fail] if many and server.whole_lists else []

    def run(*found: Vector) -> Vector:
        found, seen = found[: len(tests)], found[len(tests) :]
        n = max(f.state.size for f in (*found, *seen))
        result, state = np.zeros(n, np.bool_), np.zeros(n, np.uint8)
        for f in found:
            open_ = ~result & (state != 2)
            hit = open_ & (f.state == VALUE) & f.data
            result = result | hit
            state = np.where(open_ & (f.state != VALUE), np.maximum(state, f.state), state)
        for v in seen:
            state = np.where(v.state == FAILED, FAILED, state)
        return Vector(result, np.where(result, VALUE, state).astype(np.uint8))

    return derive(BOOLEAN, [*tests, *late], run, at)


MAX_ITEMS = 256
_TEMPORAL = (Kind.DATETIME, Kind.TIME)


def _timed(value: Value, others: Sequence[Value], at: int) -> None:
    """Lists and ranges where a server would compare a date or a time as text."""
    if value.type.kind is Kind.STRING and any(v.type.kind in _TEMPORAL for v in others):
        raise refused("text among dates or times", at, "let the column stand first")
    if value.type.kind is Kind.TIME:
        raise refused("a TIME in a list or range", at, "write comparisons")


def same_signs(value: Value, items: Sequence[Value], at: int) -> None:
    """Refuse lists, also of CASE, in which servers compare bits of integers of unlike signs."""
    sought = numeric(value).type
    for item in map(numeric, items):
        known = isinstance(item.literal, int) and 0 <= item.literal < 1 << 63
        both = _may_be_integers(item.type) and _may_be_integers(sought)
        unlike = item.type.unsigned != sought.unsigned or item.type.mixed or sought.mixed
        if both and not known and unlike:
            raise refused(
                "a list with signed and unsigned integers", at, "write comparisons with OR"
            )


def _may_be_integers(type_: Type) -> bool:
    """Whether servers may compare it as an integer; a choice of both signs is a decimal to us."""
    return type_.kind is Kind.INT or (type_.mixed and not type_.scale)


def _among(value: Value, items: Sequence[Value], at: int) -> Value | None:
    """Integers among many integer literals, by one search."""
    value = numeric(value)
    if value.type.kind is not Kind.INT or len(items) < 8 or value.width == YEAR:
        return None
    literals = [v.literal for v in items]
    if not all(isinstance(x, int) and v.type.kind is Kind.INT
               for x, v in zip(literals, items, strict=True)):  # fmt: skip
        return None
    low, high = (0, 1 << 64) if value.type.unsigned else (-(1 << 63), 1 << 63)
    dtype = np.uint64 if value.type.unsigned else np.int64
    known = np.array(sorted({x for x in literals if low <= x < high}), dtype)

    def run(v: Vector) -> Vector:
        data = v.data.astype(dtype) if v.data.dtype == np.bool_ else v.data
        return Vector(np.isin(data, known), v.state)

    return derive(BOOLEAN, [value], run, at)
