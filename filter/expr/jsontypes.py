"""What both forms of JSON have in common: static types, and the names of JSON's types."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from filter.expr.values import (
    BOOLEAN,
    FAILED,
    NULL,
    VALUE,
    Buffer,
    Ints,
    Kind,
    Strength,
    Text,
    Type,
    Value,
    Vector,
    derive,
)

COUNT = Type(Kind.INT, digits=10)
JSON = Type(Kind.JSON)
UNQUOTED = Type(Kind.STRING, charset="utf8mb4", collation="utf8mb4_bin", strength=Strength.MADE)

_TYPES = ["NULL", "BOOLEAN", "INTEGER", "UNSIGNED INTEGER", "DOUBLE", "STRING", "OBJECT", "ARRAY"]
# Of MySQL, by the type of a column that they were made of.
_OPAQUE_TYPES = {7: "TIMESTAMP", 10: "DATE", 11: "TIME", 12: "DATETIME", 16: "BIT", 246: "DECIMAL"}
_OPAQUE_TYPES |= dict.fromkeys((15, 249, 250, 251, 252, 253, 254), "BLOB")


class Parts(NamedTuple):
    """One part of a document a row, as the ``find`` of ``expr_json`` or ``expr_json_text`` says."""

    buf: Buffer
    kinds: Ints
    starts: Ints
    ends: Ints


def named(parts: Value, codes: Callable[[Vector], Ints], type_: Type, at: int) -> Value:
    """JSON_TYPE: the names of the codes ``expr_json.T_``; NULL where there is no part."""
    buf, starts, lengths = _names()

    def run(v: Vector) -> Vector:
        known = np.where(v.state == VALUE, codes(v), 0)
        where = np.where(v.state == VALUE, starts[known], -1)
        return Vector(Text(buf, where, lengths[known]), v.state)

    return derive(type_, [parts], run, at)


def is_null(parts: Value, at: int) -> Value:
    """``JSON_EXTRACT(…) IS NULL``: JSON's null is a value."""
    return derive(BOOLEAN, [parts], lambda v: Vector(v.state == NULL, v.state & FAILED), at)


def _names() -> tuple[Buffer, Ints, Ints]:
    names = _TYPES + [""] * (256 - len(_TYPES))
    names += [_OPAQUE_TYPES.get(n, "OPAQUE") for n in range(256)]
    encoded = [name.encode() for name in names]
    lengths = np.array([len(name) for name in encoded], np.int64)
    buf = np.frombuffer(b"".join(encoded) + bytes(16), np.uint8)
    return buf, np.cumsum(lengths) - lengths, lengths
