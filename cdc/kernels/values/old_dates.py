"""DATETIME, TIMESTAMP and TIME in the forms before MySQL 5.6 (types 12, 7 and 11).

Without fractions: little-endian numbers. With fractions (MariaDB with
``mysql56_temporal_format=OFF``, column ``(fsp)`` with fsp > 0): big-endian numbers whose length
depends on fsp, which the binlog does not say: take fsp from the table's schema.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import function
from cdc.kernels.values.dates import big_endian, clock_text, date_text, fraction_text, instant_text
from cdc.kernels.values.errors import FRACTION_DIGITS, TEMPORAL_RANGE
from cdc.kernels.values.pow10 import POW10_64
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT, TABLE64
from cdc.kernels.values.words import load32, load64

# Bytes by fsp.
TIME_BYTES = np.array([3, 4, 4, 5, 5, 5, 6], dtype=np.int64)
DATETIME_BYTES = np.array([8, 6, 6, 7, 7, 7, 8], dtype=np.int64)
TIMESTAMP_BYTES = np.array([4, 5, 5, 6, 6, 7, 7], dtype=np.int64)

_TIME_LIMIT = 838 * 3600 + 59 * 60 + 59 + 1


@function(CHECKED(I64, I64, I64, I64, I64, I64, I64, I64, OUT, I64, I64))
def _datetime_parts(year, month, day, hour, minute, second, micros, fsp, out, o, p):  # type: ignore[no-untyped-def]
    if year > 9999 or month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        return p, TEMPORAL_RANGE
    o = date_text(year, month, day, out, o)
    out[o] = np.uint8(32)
    o = clock_text(hour, minute, second, out, o + 1)
    return fraction_text(micros, fsp, out, o), 0


@function(CHECKED(BUF, I64, I64, OUT, I64))
def datetime(buf, p, fsp, out, o):  # type: ignore[no-untyped-def]
    """DATETIME(fsp), type 12, ``DATETIME_BYTES[fsp]`` bytes."""
    if fsp < 0 or fsp > 6:
        return p, FRACTION_DIGITS
    if fsp == 0:
        w = load64(buf, p)
        if w >= np.uint64(1) << np.uint64(62):
            return p, TEMPORAL_RANGE
        v = np.int64(w)
        d = v // 1000000
        t = v % 1000000
        return _datetime_parts(
            d // 10000,
            d // 100 % 100,
            d % 100,
            t // 10000,
            t // 100 % 100,
            t % 100,
            0,
            0,
            out,
            o,
            p,
        )
    v = big_endian(buf, p, DATETIME_BYTES[fsp])
    if v < 0:
        return p, TEMPORAL_RANGE
    scale = np.int64(POW10_64[fsp])
    micros = v % scale * np.int64(POW10_64[6 - fsp])
    v = v // scale
    ymd = v // 86400
    t = v % 86400
    ym = ymd // 32
    return _datetime_parts(
        ym // 13, ym % 13, ymd % 32, t // 3600, t // 60 % 60, t % 60, micros, fsp, out, o, p
    )


@function(CHECKED(BUF, I64, I64, TABLE64, TABLE64, OUT, I64))
def timestamp(buf, p, fsp, starts, offsets, out, o):  # type: ignore[no-untyped-def]
    """TIMESTAMP(fsp), type 7, ``TIMESTAMP_BYTES[fsp]`` bytes; zone as in ``zones``."""
    if fsp < 0 or fsp > 6:
        return p, FRACTION_DIGITS
    if fsp == 0:
        return instant_text(np.int64(load32(buf, p)), 0, 0, starts, offsets, out, o, p)
    fraction = big_endian(buf, p + 4, TIMESTAMP_BYTES[fsp] - 4)
    micros = fraction * np.int64(POW10_64[6 - fsp])
    return instant_text(big_endian(buf, p, 4), micros, fsp, starts, offsets, out, o, p)


@function(CHECKED(I64, I64, I64, I64, OUT, I64, I64))
def _time_parts(hour, minute, second, negative, out, o, p):  # type: ignore[no-untyped-def]
    if hour > 838 or minute > 59 or second > 59:
        return p, TEMPORAL_RANGE
    if negative:
        out[o] = np.uint8(45)
        o += 1
    return clock_text(hour, minute, second, out, o), 0


@function(CHECKED(BUF, I64, I64, OUT, I64))
def time(buf, p, fsp, out, o):  # type: ignore[no-untyped-def]
    """TIME(fsp), type 11, ``TIME_BYTES[fsp]`` bytes."""
    if fsp < 0 or fsp > 6:
        return p, FRACTION_DIGITS
    if fsp == 0:
        v = np.int64(buf[p]) | np.int64(buf[p + 1]) << 8 | np.int64(np.int8(buf[p + 2])) << 16
        a = abs(v)
        return _time_parts(a // 10000, a // 100 % 100, a % 100, 1 if v < 0 else 0, out, o, p)
    scale = np.int64(POW10_64[fsp])
    v = big_endian(buf, p, TIME_BYTES[fsp]) - _TIME_LIMIT * scale
    a = abs(v)
    t = a // scale
    o, error = _time_parts(t // 3600, t // 60 % 60, t % 60, 1 if v < 0 else 0, out, o, p)
    if error != 0:
        return o, error
    return fraction_text(a % scale * np.int64(POW10_64[6 - fsp]), fsp, out, o), 0
