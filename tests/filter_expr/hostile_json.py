"""Malformed documents through every JSON kernel; run with numba's bounds checks on."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from cdc.kernels import expr_json, expr_json_order, expr_json_text, expr_json_unquote
from tests.filter_expr.documents import KEYS, document

# As MySQL 8.0 stores {"a": [1, 70000, "x", 1.5, true], "d": 1.50, "k": {"a": -1, "t":
# "10:11:12.000000"}, "bb": null} with a DECIMAL and a TIME, and [{"a": "é"}, 18446744073709551615,
# x'cafe', -70000].
BINARY = [
    bytes.fromhex(
        "0004006d00200001002100010022000100230002000225000f4600004f0004000061646b62620500"
        "21000501000713000c17000b1900040100701101000178000000000000f83ff6070b028000000132"
        "02001e00120001001300010005ffff0f140061740b08000000cca2000000"
    ),
    bytes.fromhex(
        "0204002f000010000a1f000f2700072b0001000f000b0001000c0c006102c3a9ffffffffffffffff"
        "0f02cafe90eefeff"
    ),
]


def _row(data: bytes) -> tuple[Any, Any, Any]:
    return np.frombuffer(data, np.uint8), np.zeros(1, np.int64), np.array([len(data)], np.int64)


def _three() -> list[Any]:
    return [np.empty(1, np.int64) for _ in range(3)]


def _path(rng: random.Random) -> tuple[Any, Any]:
    # Without the parser of paths, whose package would be compiled with checks too.
    legs, keys = [], b""
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        key = rng.choice(("a", "k", "bb", "t", *KEYS)).encode()
        leg = (rng.choice((expr_json.CELL, expr_json.CELL_FROM_END)), rng.randrange(3), 0)
        legs.append(rng.choice((leg, (expr_json.KEY, len(keys), len(key)))))
        keys += key
    return np.array(legs, np.int64).reshape(-1, 3), np.frombuffer(keys + bytes(8), np.uint8)


def binary(data: bytes, legs: Any, keys: Any) -> int:
    """One document of MySQL through its kernels; the code of an error, or 0."""
    buf, starts, lengths = _row(data)
    found = _three()
    row, error = expr_json.find(buf, starts, lengths, legs, keys, *found)
    if row >= 0:
        return int(error)
    out = np.empty(int(expr_json.room(*found)) + 16, np.uint8)
    at, sizes, codes = _three()
    row, error = expr_json.texts(buf, *found, out, at, sizes)
    if row < 0:
        assert sizes[0] + max(at[0], 0) <= len(out)
    expr_json.sizes(buf, *found, codes)
    expr_json.types_of(buf, found[0], found[1], codes)
    numbers, scratch = np.array([0, 0, 1, 1, 0]), np.empty(128, np.uint8)
    text, order = np.frombuffer(b"1" + bytes(8), np.uint8), np.empty(1, np.int8)
    for rank in (expr_json_order.NUMBER, expr_json_order.TEXT, expr_json_order.BOOLEAN):
        expr_json_order.order(buf, *found, rank, numbers, 1.0, text, 1, scratch, order)
    return int(error)


def text(data: bytes, legs: Any, keys: Any) -> None:
    """One text of MariaDB through its kernels."""
    buf, starts, lengths = _row(data)
    for mode in (expr_json_text.ANY, expr_json_text.SCALAR):
        for plain in (0, 1):
            found = _three()
            stack = np.empty(expr_json_text.STACK, np.int64)
            expr_json_text.find(buf, starts, lengths, legs, keys, mode, plain, stack, *found)
            at, sizes, counts = _three()
            expr_json_text.sizes(buf, *found, counts)
            out = np.empty(2 * int((found[2] - found[1]).sum()) + 16, np.uint8)
            for form in (expr_json_unquote.VALUE, expr_json_unquote.UNQUOTE):
                expr_json_unquote.texts(buf, *found, form, out, at, sizes)


def _mutated(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice(
                (0, 1, 2, 3, 4, 12, 15, 34, 92, 127, 255, rng.randrange(256))
            )
    return bytes(changed[: rng.choice((len(changed), rng.randint(0, len(changed))))])


def run(count: int) -> dict[int, int]:
    """So many mutations of documents; how often each error of MySQL's came."""
    rng = random.Random(7)
    errors: dict[int, int] = {}
    for _ in range(count):
        error = binary(_mutated(rng, rng.choice(BINARY)), *_path(rng))
        errors[error] = errors.get(error, 0) + 1
        text(_mutated(rng, document(rng).encode()), *_path(rng))
    return errors


if __name__ == "__main__":
    print(run(int(sys.argv[1])))
