"""Three-valued logic and what chooses among values: IF, CASE, COALESCE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cdc.kernels import expr_text
from filter.expr import decimals
from filter.expr.arithmetic import Server
from filter.expr.compare import compare
from filter.expr.convert import numeric, refused, to_decimal, to_real, truth
from filter.expr.strings import agreed, standing, under
from filter.expr.values import (
    BOOLEAN,
    FAILED,
    NULL,
    VALUE,
    Kind,
    Text,
    Type,
    Value,
    Vector,
    derive,
)


def both(args: Sequence[Value], at: int) -> Value:
    """AND: a FALSE ends it, so what stands behind one fails no row."""
    return _fold(args, at, ends=False)


def either(args: Sequence[Value], at: int) -> Value:
    """OR: a TRUE ends it."""
    return _fold(args, at, ends=True)


def _fold(args: Sequence[Value], at: int, *, ends: bool) -> Value:
    conditions = [truth(a) for a in args]

    def run(*found: Vector) -> Vector:
        n = max(f.state.size for f in found)
        done = np.zeros(n, np.bool_)
        state = np.zeros(n, np.uint8)
        for f in found:
            here = (f.state == VALUE) & (f.data == ends)
            open_ = ~done & (state != FAILED)
            done = done | (open_ & here)
            state = np.where(open_ & (f.state != VALUE), np.maximum(state, f.state), state)
        state = np.where(done, VALUE, state).astype(np.uint8)
        return Vector(done if ends else ~done, state)

    return derive(BOOLEAN, conditions, run, at)


def exclusive(left: Value, right: Value, at: int) -> Value:
    """XOR."""
    return derive(
        BOOLEAN,
        [truth(left), truth(right)],
        lambda x, y: Vector(x.data ^ y.data, np.where(x.state != VALUE, x.state, y.state)),
        at,
    )


def opposite(value: Value, at: int) -> Value:
    """NOT."""
    found = derive(BOOLEAN, [truth(value)], lambda v: Vector(~v.data, v.state), at)
    found.negates = value
    return found


def is_(value: Value, what: str, at: int) -> Value:
    """IS NULL, IS TRUE, IS FALSE; never NULL."""
    if what == "NULL":
        if value.may_fail:
            # Where no operand can be NULL, a server does not compute it at all.
            raise refused("IS NULL of arithmetic", at, "ask it of the columns")
        return derive(
            BOOLEAN, [value], lambda v: Vector(v.state == NULL, v.state & np.uint8(FAILED)), at
        )
    wanted = what == "TRUE"

    def run(v: Vector) -> Vector:
        found = (v.state == VALUE) & (v.data == wanted)
        return Vector(found, v.state & np.uint8(FAILED))

    return derive(BOOLEAN, [truth(value)], run, at)


def common_type(values: Sequence[Value], at: int) -> tuple[Type, list[Value]]:
    """The one type of what is chosen among, and all values in it."""
    known = [v for v in values if v.type.kind is not Kind.NULL]
    if any(v.literal == -(1 << 63) for v in known if isinstance(v.literal, int)):
        # To MariaDB it is an integer in places and a decimal in others.
        raise refused("a choice with the lowest integer", at, "write a larger one")
    if not known:
        return Type(Kind.NULL), list(values)
    kinds = {v.type.kind for v in known}
    if Kind.STRING in kinds:
        if kinds != {Kind.STRING} or any(v.number is not None for v in known):
            raise refused("a choice between text and numbers", at, "let all be of one kind")
        type_ = agreed(known, at)
        for v in known:
            standing(v.type, at)
        return type_, [under(v, type_) for v in values]
    if kinds & {Kind.DATETIME, Kind.TIME}:
        if len(kinds) > 1:
            raise refused("a choice between dates, times and numbers", at, "let all be of one kind")
        return replace(known[0].type, is_date=all(v.type.is_date for v in known)), list(values)
    known = [numeric(v) for v in values]
    if Kind.REAL in kinds:
        real = [to_real(v) for v in known]
        if any(v.type.decimals is not None and v.type.kind is Kind.REAL for v in known):
            raise refused("a choice with FLOAT(M,D) or DOUBLE(M,D)", at, "compare the column")
        return Type(Kind.REAL), real
    signs = {v.type.unsigned for v in known if v.type.kind is Kind.INT}
    if kinds == {Kind.INT} and len(signs) == 1:
        mixed = any(v.type.mixed for v in known)
        return Type(Kind.INT, unsigned=signs.pop(), digits=20, mixed=mixed), known
    wide = [to_decimal(v) for v in known]
    whole = max(v.type.digits - v.type.scale for v in wide)
    scale = max(v.type.scale for v in wide)
    if whole + scale > 65:
        raise refused("a choice among decimals of very different size", at, "choose fewer digits")
    # Of unsigned decimals MySQL 8.0 makes an unsigned one, 9.7 does not.
    mixed = len(signs) > 1 or any(
        v.type.mixed or (v.type.kind is Kind.DECIMAL and v.type.unsigned) for v in known
    )
    type_ = Type(Kind.DECIMAL, digits=whole + scale, scale=scale, mixed=mixed)
    return type_, [v if v.type.kind is Kind.NULL else _rescaled(v, type_) for v in wide]


def _rescaled(value: Value, type_: Type) -> Value:
    points = decimals.limbs_of(value.type.digits, value.type.scale)[1]
    count, wanted = decimals.limbs_of(type_.digits, type_.scale)

    def run(v: Vector) -> Vector:
        wide = decimals.widen(v.data, points, max(count, len(v.data) + wanted - points), wanted)
        while len(wide) > count:
            wide[-2] += wide[-1] * decimals.BASE
            wide = wide[:-1]
        return Vector(wide, v.state)

    return derive(type_, [value], run, value.at)


def choose(conditions: Sequence[Value], results: Sequence[Value], at: int) -> Value:
    """The first result whose condition is true, or the last one, which has none."""
    type_, branches = common_type(results, at)
    tests = [truth(c) for c in conditions]
    count = len(tests)
    blank = _blank(branches)

    def run(*found: Vector) -> Vector:
        picks, values = found[:count], found[count:]
        n = max(f.state.size for f in found)
        which = np.full(n, len(values) - 1)
        state = np.zeros(n, np.uint8)
        open_ = np.ones(n, np.bool_)
        for i, p in enumerate(picks):
            state = np.where(open_ & (p.state == FAILED), FAILED, state)
            hit = open_ & (p.state == VALUE) & p.data
            which = np.where(hit, i, which)
            open_ = open_ & ~hit & (p.state != FAILED)
        return _pick(type_, which, state, values, blank)

    return derive(type_, [*tests, *branches], run, at)


def coalesce(args: Sequence[Value], at: int) -> Value:
    """The first value that is not NULL."""
    type_, branches = common_type(args, at)
    blank = _blank(branches)

    def run(*values: Vector) -> Vector:
        n = max(v.state.size for v in values)
        which = np.full(n, len(values) - 1)
        open_ = np.ones(n, np.bool_)
        for i, v in enumerate(values):
            hit = open_ & (v.state != NULL)
            which = np.where(hit, i, which)
            open_ &= ~hit
        return _pick(type_, which, np.zeros(n, np.uint8), values, blank)

    return derive(type_, branches, run, at)


def nullif(value: Value, other: Value, server: Server, at: int) -> Value:
    """NULL where both are equal, else the first."""
    if value.type.kind is Kind.STRING and value.number is not None:
        raise refused("NULLIF of an enum, set or binary literal", at, "write CASE WHEN")
    standing(value.type, at)
    same = compare("=", value, other, server, at)

    def run(test: Vector, v: Vector) -> Vector:
        state = np.where((test.state == VALUE) & test.data, NULL, v.state)
        state = np.where(test.state == FAILED, FAILED, state)
        return Vector(v.data, state.astype(np.uint8))

    return derive(value.type, [same, value], run, at)


def _blank(values: Sequence[Value]) -> list[bool]:
    return [v.type.kind is Kind.NULL for v in values]


def _pick(
    type_: Type, which: Any, state: Any, values: Sequence[Vector], blank: list[bool]
) -> Vector:
    n = which.size
    states = np.zeros(n, np.uint8)
    for i, v in enumerate(values):
        states = np.where(which == i, np.broadcast_to(v.state, n), states)
    state = np.where(state == FAILED, FAILED, states).astype(np.uint8)
    if type_.kind is Kind.STRING:
        return Vector(_pick_text(which, values), state)
    data: Any = np.zeros(n, np.int64)
    chosen = False
    for i, v in enumerate(values):
        if blank[i]:
            continue
        found = v.data
        if found.dtype == np.bool_:
            found = found.astype(_dtype(type_))
        if not chosen:
            data, chosen = np.zeros((*found.shape[:-1], n), found.dtype), True
        data = np.where(which == i, found, data)
    return Vector(data, state)


def _dtype(type_: Type) -> Any:
    if type_.kind is Kind.REAL:
        return np.float64
    return np.uint64 if type_.kind is Kind.INT and type_.unsigned else np.int64


def _pick_text(which: Any, values: Sequence[Vector]) -> Text:
    """Texts of several buffers in one; where there is only one buffer nothing is copied."""
    n = which.size
    texts = [v.data if isinstance(v.data, Text) else None for v in values]
    buffers = {id(t.buf): t.buf for t in texts if t is not None}
    if len(buffers) == 1:
        buf = next(iter(buffers.values()))
        starts, lengths = np.full(n, -1, np.int64), np.zeros(n, np.int64)
        for i, t in enumerate(texts):
            if t is not None:
                starts = np.where(which == i, t.starts, starts)
                lengths = np.where(which == i, t.lengths, lengths)
        return Text(buf, starts, lengths)
    lengths = np.zeros(n, np.int64)
    for i, t in enumerate(texts):
        if t is not None:
            lengths = np.where(which == i, np.where(t.starts < 0, 0, t.lengths), lengths)
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()) + 16, np.uint8)
    for i, t in enumerate(texts):
        if t is not None:
            expr_text.copy_chosen(t.buf, t.starts, t.lengths, which == i, starts, out)
    return Text(out, starts, lengths)
