"""DATE, DATETIME, TIMESTAMP and TIME in the forms of MySQL 5.6 and later (MariaDB 10.1 and later).

All are big-endian except DATE. Fractions of ``fsp`` digits follow in ``(fsp + 1) // 2`` bytes.
Text as the server prints it: always ``fsp`` fractional digits, zero dates as ``0000-00-00``.
Errors: FRACTION_DIGITS, TEMPORAL_RANGE (a part that no server stores), ZONE_RANGE.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import function
from cdc.kernels.values.civil import civil_date, local_second
from cdc.kernels.values.errors import FRACTION_DIGITS, TEMPORAL_RANGE, ZONE_RANGE
from cdc.kernels.values.integers import PAIRS, fixed
from cdc.kernels.values.pow10 import POW10_64
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT, TABLE64
from cdc.kernels.values.words import store16

_DASH = np.uint8(45)
_COLON = np.uint8(58)
_SPACE = np.uint8(32)
_DOT = np.uint8(46)


@function(I64(I64, I64, I64, OUT, I64))
def date_text(year, month, day, out, o):  # type: ignore[no-untyped-def]
    """``YYYY-MM-DD``; the parts are in range."""
    store16(out, o, PAIRS[year // 100])
    store16(out, o + 2, PAIRS[year % 100])
    out[o + 4] = _DASH
    store16(out, o + 5, PAIRS[month])
    out[o + 7] = _DASH
    store16(out, o + 8, PAIRS[day])
    return o + 10


@function(I64(I64, I64, I64, OUT, I64))
def clock_text(hour, minute, second, out, o):  # type: ignore[no-untyped-def]
    """``hh:mm:ss``, or ``hhh:mm:ss`` from 100 hours; the parts are in range."""
    if hour >= 100:
        out[o] = np.uint8(48 + hour // 100)
        o += 1
    store16(out, o, PAIRS[hour % 100])
    out[o + 2] = _COLON
    store16(out, o + 3, PAIRS[minute])
    out[o + 5] = _COLON
    store16(out, o + 6, PAIRS[second])
    return o + 8


@function(I64(I64, I64, OUT, I64))
def fraction_text(micros, fsp, out, o):  # type: ignore[no-untyped-def]
    """``.`` and the first ``fsp`` digits of ``micros`` (0..999999); nothing for fsp 0."""
    if fsp == 0:
        return o
    out[o] = _DOT
    fixed(np.uint64(micros) // POW10_64[6 - fsp], out, o + 1, fsp)
    return o + 1 + fsp


@function(I64(BUF, I64, I64))
def big_endian(buf, p, n):  # type: ignore[no-untyped-def]
    """Unsigned big-endian integer of ``n`` <= 8 bytes."""
    v = np.int64(0)
    for i in range(n):
        v = v << 8 | np.int64(buf[p + i])
    return v


@function(I64(I64, I64))
def _micros(stored, fsp):  # type: ignore[no-untyped-def]
    """Microseconds of a stored fraction: its unit is 10**-2, 10**-4 or 10**-6 by length."""
    return stored * np.int64(POW10_64[6 - 2 * ((fsp + 1) // 2)])


@function(CHECKED(BUF, I64, OUT, I64))
def date(buf, p, out, o):  # type: ignore[no-untyped-def]
    """DATE, 3 bytes little-endian: year << 9 | month << 5 | day."""
    v = np.int64(buf[p]) | np.int64(buf[p + 1]) << 8 | np.int64(buf[p + 2]) << 16
    year = v >> 9
    month = v >> 5 & 15
    if year > 9999 or month > 12:
        return p, TEMPORAL_RANGE
    return date_text(year, month, v & 31, out, o), 0


@function(CHECKED(I64, I64, I64, OUT, I64, I64))
def packed_datetime(v, micros, fsp, out, o, p):  # type: ignore[no-untyped-def]
    """Text of ``((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second``."""
    ymd = v >> 17
    year = (ymd >> 5) // 13
    month = (ymd >> 5) % 13
    hour = v >> 12 & 31
    minute = v >> 6 & 63
    second = v & 63
    if v < 0 or year > 9999 or hour > 23 or minute > 59 or second > 59 or micros > 999999:
        return p, TEMPORAL_RANGE
    o = date_text(year, month, ymd & 31, out, o)
    out[o] = _SPACE
    o = clock_text(hour, minute, second, out, o + 1)
    return fraction_text(micros, fsp, out, o), 0


@function(CHECKED(BUF, I64, I64, OUT, I64))
def datetime2(buf, p, fsp, out, o):  # type: ignore[no-untyped-def]
    """DATETIME(fsp), type 18: 5 bytes + fraction."""
    if fsp < 0 or fsp > 6:
        return p, FRACTION_DIGITS
    v = big_endian(buf, p, 5) - 0x8000000000
    micros = _micros(big_endian(buf, p + 5, (fsp + 1) // 2), fsp)
    return packed_datetime(v, micros, fsp, out, o, p)


@function(CHECKED(I64, I64, I64, I64, OUT, I64, I64))
def packed_time(v, micros, negative, fsp, out, o, p):  # type: ignore[no-untyped-def]
    """Text of ``hour << 12 | minute << 6 | second`` with its sign."""
    hour = v >> 12
    minute = v >> 6 & 63
    second = v & 63
    if hour > 838 or minute > 59 or second > 59 or micros > 999999:
        return p, TEMPORAL_RANGE
    if negative:
        out[o] = _DASH
        o += 1
    o = clock_text(hour, minute, second, out, o)
    return fraction_text(micros, fsp, out, o), 0


@function(CHECKED(BUF, I64, I64, OUT, I64))
def time2(buf, p, fsp, out, o):  # type: ignore[no-untyped-def]
    """TIME(fsp), type 19: 3 bytes + fraction, together one signed number."""
    if fsp < 0 or fsp > 6:
        return p, FRACTION_DIGITS
    n = (fsp + 1) // 2
    v = big_endian(buf, p, 3 + n) - (0x800000 << (8 * n))
    negative = 1 if v < 0 else 0
    v = abs(v)
    micros = _micros(v & ((1 << (8 * n)) - 1), fsp)
    return packed_time(v >> (8 * n), micros, negative, fsp, out, o, p)


@function(CHECKED(I64, I64, I64, TABLE64, TABLE64, OUT, I64, I64))
def instant_text(seconds, micros, fsp, starts, offsets, out, o, p):  # type: ignore[no-untyped-def]
    """Local date and time of a UTC second in the zone (see ``zones``); 0 is the zero timestamp."""
    if micros > 999999:
        return p, TEMPORAL_RANGE
    if seconds == 0 and micros == 0:
        o = date_text(0, 0, 0, out, o)
        out[o] = _SPACE
        return fraction_text(0, fsp, out, clock_text(0, 0, 0, out, o + 1)), 0
    local, found = local_second(seconds, starts, offsets)
    if found == 0:
        return p, ZONE_RANGE
    days = local // 86400
    rest = local - days * 86400
    year, month, day = civil_date(days)
    if year < 0 or year > 9999:
        return p, TEMPORAL_RANGE
    o = date_text(year, month, day, out, o)
    out[o] = _SPACE
    o = clock_text(rest // 3600, rest // 60 % 60, rest % 60, out, o + 1)
    return fraction_text(micros, fsp, out, o), 0


@function(CHECKED(BUF, I64, I64, TABLE64, TABLE64, OUT, I64))
def timestamp2(buf, p, fsp, starts, offsets, out, o):  # type: ignore[no-untyped-def]
    """TIMESTAMP(fsp), type 17: 4 bytes of unsigned seconds + fraction; zone as in ``zones``."""
    if fsp < 0 or fsp > 6:
        return p, FRACTION_DIGITS
    micros = _micros(big_endian(buf, p + 4, (fsp + 1) // 2), fsp)
    return instant_text(big_endian(buf, p, 4), micros, fsp, starts, offsets, out, o, p)
