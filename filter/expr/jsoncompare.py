"""Parts of MySQL's JSON documents compared with a literal, by the rules of JSON.

MySQL manual, "Comparison and Ordering of JSON Values": types have an order among themselves,
numbers are compared by value, strings by their bytes.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from cdc.kernels import expr_json_order as order
from filter.expr.collations import encode
from filter.expr.columns import checked
from filter.expr.compare import TESTS
from filter.expr.convert import refused
from filter.expr.values import BOOLEAN, NULL, Frame, Kind, Value, Vector

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BITS = 64


def compare_json(op: str, parts: Value, literal: Value, boolean: bool, at: int) -> Value:
    """``parts op literal``; ``boolean`` says that the literal is TRUE or FALSE."""
    rank, numbers, real, text = _compiled(literal, boolean, at)
    buf = np.frombuffer(text + bytes(8), np.uint8)
    test = TESTS["=" if op == "<=>" else op]

    def run(frame: Frame | None) -> Vector:
        assert frame is not None
        v = parts.of(frame)
        out = np.empty(len(v.data.kinds), np.int8)
        scratch = np.empty(128, np.uint8)
        checked(order.order(*v.data, rank, numbers, real, buf, len(text), scratch, out), frame)
        if op == "<=>":
            return Vector((v.state != NULL) & test(out), np.zeros_like(v.state))
        return Vector(test(out), v.state)

    value = Value(BOOLEAN, run, at=at)
    value.columns = parts.columns
    return value


def flipped(op: str) -> str:
    """The operator for its sides exchanged."""
    return _FLIPPED.get(op, op)


def _compiled(literal: Value, boolean: bool, at: int) -> tuple[int, np.ndarray, float, bytes]:
    known, numbers = literal.literal, np.zeros(5, np.int64)
    if boolean:
        numbers[0] = int(known)
        return order.BOOLEAN, numbers, 0.0, b""
    if isinstance(known, str) and literal.type.kind is Kind.STRING:
        data = encode(known, "utf8mb4")
        if data is not None:
            return order.TEXT, numbers, 0.0, data
    elif isinstance(known, int | float | Decimal):
        exact = Decimal(repr(known)) if isinstance(known, float) else Decimal(known)
        floor = math.floor(exact)
        side = 1 if floor >= 1 << _BITS else -1 if floor < -(1 << _BITS - 1) else 0
        real = float(known)
        # Where a double equals the nearest one, its shortest decimal decides.
        tie = 0 if isinstance(known, float) else _sign(Decimal(repr(real)).compare(exact))
        bits = 0 if side else floor & (1 << _BITS) - 1
        signed = bits - (1 << _BITS) if bits >> _BITS - 1 else bits
        numbers[:] = side, floor < 0, signed, exact == floor, tie
        return order.NUMBER, numbers, real, format(exact, "f").encode()
    raise refused("JSON compared with this", at, "write a number, a string, TRUE or FALSE")


def _sign(number: Decimal) -> int:
    return (number > 0) - (number < 0)
