"""Every kernel on random bytes; run by test_bounds with numba's bounds checks on."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from cdc.kernels.charsets import NAMES, tables
from cdc.kernels.values import (
    addresses,
    binary,
    dates,
    decimals,
    escape,
    floats,
    integers,
    old_dates,
    text,
    vectors,
)
from cdc.kernels.values.mysql_json import mysql_json
from cdc.kernels.values.zones import UTC_ZONE

# Kernel, input length, parameters; None: any length, which is then the first parameter.
Case = tuple[Any, int | None, tuple[Any, ...]]


def cases() -> list[Case]:
    found: list[Case] = [
        (mysql_json, None, ()),
        (escape.utf8, None, ()),
        (escape.ascii_text, None, ()),
        (binary.binary, None, (0,)),
        (vectors.vector, None, ()),
        (addresses.uuid, None, ()),
        (addresses.inet4, None, ()),
        (addresses.inet6, None, ()),
        (floats.double, 8, ()),
        (floats.float32, 4, ()),
        (dates.date, 3, ()),
        (integers.year, 1, ()),
    ]
    found += [(text.text, None, (code, tables())) for code in range(len(NAMES) + 1)]
    for fsp in range(7):
        n = (fsp + 1) // 2
        found += [
            (dates.datetime2, 5 + n, (fsp,)),
            (dates.time2, 3 + n, (fsp,)),
            (dates.timestamp2, 4 + n, (fsp, *UTC_ZONE)),
            (old_dates.datetime, int(old_dates.DATETIME_BYTES[fsp]), (fsp,)),
            (old_dates.time, int(old_dates.TIME_BYTES[fsp]), (fsp,)),
            (old_dates.timestamp, int(old_dates.TIMESTAMP_BYTES[fsp]), (fsp, *UTC_ZONE)),
        ]
    for bits in (8, 16, 24, 32, 64):
        found += [(getattr(integers, f"{sign}int{bits}"), bits // 8, ()) for sign in ("", "u")]
    found += [(integers.bit, n, (n,)) for n in range(1, 9)]
    for precision, scale in ((1, 0), (9, 9), (10, 2), (30, 30), (65, 30), (65, 0)):
        size = int(decimals.decimal_bytes(precision, scale))
        found.append((decimals.decimal, size, (precision, scale)))
    return found


def run(rounds: int) -> None:
    """The input ends where its array ends, and ``out`` has just the promised room."""
    rng = random.Random(99)
    for kernel, size, parameters in cases():
        extra = 352 if kernel is floats.double else 72 if kernel is floats.float32 else 0
        for _ in range(rounds):
            data = rng.randbytes(rng.randint(0, 70) if size is None else size)
            if kernel is mysql_json and data:
                small = bytes(rng.choice((0, 0, 1, 2, 3, 5, 8, b)) for b in data[1:])
                data = bytes([rng.choice((0, 1, 2, 3, 11, 12, 15))]) + small
            buf = np.frombuffer(data, dtype=np.uint8)
            out = np.zeros(12 * len(data) + 64 + extra, dtype=np.uint8)
            length = (len(data),) if size is None else ()
            result = kernel(buf, 0, *length, *parameters, out, 0)
            o, error = result if isinstance(result, tuple) else (result, 0)
            if error:
                assert 0 <= o <= len(data), (kernel, data, result)
            else:
                out[:o].tobytes().decode()


if __name__ == "__main__":
    run(int(sys.argv[1]))
