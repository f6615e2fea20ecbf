"""Text compared with integers and decimals, where the server takes it for a decimal.

MariaDB does so with integers, and all but MySQL 5 do with a decimal and a constant text.

Doubles say the same for all but a few rows: those that are equal as doubles and may differ in
digits that a double does not have, and numbers next to nothing. Only these are looked at again.
Measured on MariaDB 10.11, 11.4 and 11.8: operators compare text rounded to ``PLACES`` decimals (the
server's NOT_FIXED_DEC), while lists, ranges and CASE take as many as a decimal's buffer of 81
digits has room for, in words of 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from filter.expr import decimals
from filter.expr.arithmetic import Server
from filter.expr.convert import NUMBER, numeric, refused, to_real
from filter.expr.values import VALUE, Kind, Text, Type, Value, Vector, derive, no_state

PLACES = 39
_ROOM, _WORD = 81, 9
# Texts of so many bytes have no more digits than a double tells apart.
_SHORT = 15
_SAFE = float(1 << 53)
_TINY = 1e-38
_BEYOND = Decimal(10) ** 80
# No exponent beyond it makes a difference, and decimal's own are bounded.
_FAR = 10_000
_EXACT = Context(prec=400, Emin=-1_000_000, Emax=1_000_000)


def with_doubles(value: Value) -> Value:
    """The value with its double beside it: what ``order`` takes."""
    value = numeric(value)
    return derive(value.type, [to_real(value), value],
                  lambda r, v: Vector((r.data, v.data), v.state), value.at)  # fmt: skip


def order(a: Vector, b: Vector, listed: bool) -> Any:
    """-1, 0 or 1 for each row; ``listed`` in a list, a range or CASE."""
    x, y = a.data[0], b.data[0]
    found = (x > y).astype(np.int8) - (x < y).astype(np.int8)
    unsure = (x == y) & (_long(a) | _long(b) | (np.abs(x) >= _SAFE)) | _tiny(x) | _tiny(y)
    unsure = unsure & (a.state == VALUE) & (b.state == VALUE)
    if unsure.any():
        found = np.broadcast_to(found, unsure.shape).copy()
        for i in np.flatnonzero(unsure):
            left, right = _exact(a, int(i), listed), _exact(b, int(i), listed)
            found[i] = (left > right) - (left < right)
    return found


def _long(v: Vector) -> Any:
    whole = v.data[1]
    return whole.lengths > _SHORT if isinstance(whole, Text) else np.zeros(1, np.bool_)


def _tiny(x: Any) -> Any:
    return (x != 0) & (np.abs(x) < _TINY)


def _exact(v: Vector, i: int, listed: bool) -> Decimal:
    whole = v.data[1]
    if not isinstance(whole, Text):
        return Decimal(int(whole[i if len(whole) > 1 else 0]))
    return number(whole.value(i if len(whole.starts) > 1 else 0), listed)


def number(text: bytes, listed: bool) -> Decimal:
    """The decimal that the text begins with; 0 if there is none."""
    found = NUMBER.match(text)
    if found is None:
        return Decimal(0)
    sign, before, after = found[2].decode(), (found[3] or b"").decode(), found[4] or found[5] or b""
    exponent = max(-_FAR, min(_FAR, int(found[6] or 0)))
    value = _EXACT.create_decimal(f"{sign}{before or 0}.{after.decode() or 0}E{exponent}")
    places = PLACES
    if listed:
        places = _ROOM if found[6] else _ROOM - _WORD * -(-len(before) // _WORD)
    if value.adjusted() > _ROOM:
        return value
    rounding = ROUND_DOWN if listed else ROUND_HALF_UP
    return value.quantize(Decimal(1).scaleb(-max(places, 0)), rounding, _EXACT)


def with_decimal_constant(values: Sequence[Value], mariadb: bool) -> list[Value] | None:
    """A decimal and a constant text, which becomes one too; None if it is not these two."""
    kinds = [v.type.kind for v in values]
    if sorted(kinds, key=str) != [Kind.DECIMAL, Kind.STRING]:
        return None
    text, other = values if kinds[0] is Kind.STRING else reversed(values)
    if not text.constant or other.constant or text.number is not None:
        return None
    found = text.of(None)
    if found.state[0] != VALUE:
        return None
    constant = _constant(number(found.data.value(0), listed=not mariadb), text.at)
    return [constant if v is text else v for v in values]


def _constant(value: Decimal, at: int) -> Value:
    # Beyond every decimal is far enough.
    value = max(min(value, _BEYOND), -_BEYOND)
    text = format(value, "f")
    digits, scale = sum(c.isdigit() for c in text), len(text.partition(".")[2])
    limbs = decimals.literal(text, digits, scale)
    type_ = Type(Kind.DECIMAL, digits=digits, scale=scale)
    return Value(type_, lambda _: Vector(limbs, no_state()), at=at, constant=True, literal=value)


def condition(value: Value, server: Server) -> Value:
    """The same, where a condition is wanted; a bare column of text is refused on such a server."""
    bare = value.column is not None and numeric(value).type.kind is Kind.STRING
    if bare and server.recent_mariadb:
        # A number next to nothing is true there or false, as the optimizer has changed what is
        # around it.
        raise refused("a column of text as a condition", value.at, "write a comparison, as <> 0")
    return value


def taken(values: Sequence[Value], at: int) -> bool:
    """Whether these are compared as decimals: of a range, the kinds are joined one by one."""
    kinds = [v.type.kind for v in values]
    joined: Kind = kinds[0]
    for kind in kinds[1:]:
        if {joined, kind} == {Kind.INT, Kind.STRING}:
            joined = Kind.DECIMAL
        elif {joined, kind} == {Kind.DECIMAL, Kind.STRING} or Kind.REAL in (joined, kind):
            return False
        elif kind is Kind.DECIMAL:
            joined = kind
    if joined is Kind.DECIMAL and Kind.DECIMAL in kinds:
        raise refused("a range of text, integers and decimals", at, "write two comparisons")
    return joined is Kind.DECIMAL
