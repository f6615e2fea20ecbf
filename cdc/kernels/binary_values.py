"""Values of the binary protocol as row images store them.

Shape and errors are those of ``cdc.kernels.text_values``: ``fn(buf, p, n, …, out, o)`` reads the
value ``buf[p:p+n]``, without the length that stands before it.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import rare, small
from cdc.kernels.memory import load8, load16, load32, load64, store8
from cdc.kernels.text_values import big_endian, little_endian, put_datetime, put_timestamp

_BAD = -1


@small
def whole(buf, p, n, width, signed, out, o):  # type: ignore[no-untyped-def]
    """An integer of ``n`` bytes as one of ``width``; one that does not fit is an error."""
    if n == 8:
        v = load64(buf, p)
    elif n == 4:
        v = load32(buf, p)
    elif n == 2:
        v = load16(buf, p)
    elif n == 1:
        v = load8(buf, p)
    else:
        return np.int64(_BAD)
    if width < n:
        # Shifted up and down again it is the same only if it fits.
        spare = 64 - 8 * n
        v = v << spare >> spare
        above = 64 - 8 * width
        kept = v << above >> above if signed else v & ((np.int64(1) << (8 * width)) - 1)
        if kept != v:
            return np.int64(_BAD)
    elif signed and n < width:
        spare = 64 - 8 * n
        v = v << spare >> spare
    return little_endian(v, width, out, o)


@small
def plain(buf, p, n, width, out, o):  # type: ignore[no-untyped-def]
    """DOUBLE and FLOAT: the bytes themselves."""
    if n != width:
        return np.int64(_BAD)
    if n == 8:
        return little_endian(load64(buf, p), width, out, o)
    return little_endian(load32(buf, p), width, out, o)


@small
def _date_parts(buf, p, n):  # type: ignore[no-untyped-def]
    # (year, month, day); what is zero at the end is not sent, and all of a zero date is.
    zero = np.int64(0)
    if n == 0:
        return zero, zero, zero
    if n != 4 and n != 7 and n != 11:
        return np.int64(_BAD), zero, zero
    return load16(buf, p), load8(buf, p + 2), load8(buf, p + 3)


@small
def _clock_parts(buf, p, n):  # type: ignore[no-untyped-def]
    # (hour, minute, second, micros) behind a date.
    zero = np.int64(0)
    micros = load32(buf, p + 7) if n == 11 else zero
    if n >= 7:
        return load8(buf, p + 4), load8(buf, p + 5), load8(buf, p + 6), micros
    return zero, zero, zero, micros


@small
def _fraction(micros, fsp):  # type: ignore[no-untyped-def]
    # Fractions of odd length are stored with one digit more.
    for _ in range(3 - ((fsp + 1) >> 1)):
        micros //= 100
    return micros


@rare
def date(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """DATE."""
    year, month, day = _date_parts(buf, p, n)
    if year < 0:
        return np.int64(_BAD)
    return little_endian(year << 9 | month << 5 | day, 3, out, o)


@small
def _moment(buf, p, n, fsp):  # type: ignore[no-untyped-def]
    # (year, month, day, hour, minute, second, micros); a year of -1 for anything else.
    year, month, day = _date_parts(buf, p, n)
    hour, minute, second, micros = _clock_parts(buf, p, n)
    return year, month, day, hour, minute, second, _fraction(micros, fsp)


@rare
def datetime(buf, p, n, fsp, out, o):  # type: ignore[no-untyped-def]
    """DATETIME(fsp)."""
    year, month, day, hour, minute, second, micros = _moment(buf, p, n, fsp)
    if year < 0:
        return np.int64(_BAD)
    return put_datetime(year, month, day, hour, minute, second, micros, fsp, out, o)


@rare
def timestamp(buf, p, n, fsp, out, o):  # type: ignore[no-untyped-def]
    """TIMESTAMP(fsp) in UTC."""
    year, month, day, hour, minute, second, micros = _moment(buf, p, n, fsp)
    if year < 0:
        return np.int64(_BAD)
    return put_timestamp(year, month, day, hour, minute, second, micros, fsp, out, o)


@rare
def time(buf, p, n, fsp, out, o):  # type: ignore[no-untyped-def]
    """TIME(fsp)."""
    size = (fsp + 1) >> 1
    v = np.int64(0)
    negative = False
    if n == 8 or n == 12:
        negative = load8(buf, p) != 0
        hour = load32(buf, p + 1) * 24 + load8(buf, p + 5)
        v = hour << 12 | load8(buf, p + 6) << 6 | load8(buf, p + 7)
        micros = load32(buf, p + 8) if n == 12 else np.int64(0)
        v = v << (8 * size) | _fraction(micros, fsp)
    elif n != 0:
        return np.int64(_BAD)
    v = (np.int64(0x800000) << (8 * size)) + (-v if negative else v)
    return big_endian(v, 3 + size, out, o)


@rare
def year(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """YEAR(4)."""
    v = load16(buf, p) if n == 2 else np.int64(_BAD)
    v = v - 1900 if v != 0 else v
    if v < 0 or v > 255:
        return np.int64(_BAD)
    store8(out, o, v)
    return o + 1
