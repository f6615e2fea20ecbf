"""Values of the text protocol as row images store them.

Common shape: ``fn(buf, p, n, …, out, o)`` reads the text ``buf[p:p+n]`` and writes at ``out[o]``,
where the caller has room for the stored value. Each returns the new offset, or -1 where the text is
none that a server prints for the type. Formats: ``cdc.kernels.values``, in the other direction.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import rare, small
from cdc.kernels.memory import copy, load8, store8, store16, store32, store64
from cdc.kernels.text_floats import text_double
from cdc.kernels.values.civil import day_number
from cdc.kernels.values.decimals import GROUP_BYTES

_BAD = -1

TENTH = np.uint64((1 << 64) // 10)
"""A number above it has no room for one more digit in 64 bits, nor it for one above 5."""


@small
def little_endian(v, width, out, o):  # type: ignore[no-untyped-def]
    """The low ``width`` bytes of an int64."""
    if width == 4:
        store32(out, o, v)
    elif width == 8:
        store64(out, o, v)
    elif width == 1:
        store8(out, o, v)
    elif width == 2:
        store16(out, o, v)
    else:
        for i in range(width):
            store8(out, o + i, v >> (8 * i))
    return o + width


@small
def big_endian(v, width, out, o):  # type: ignore[no-untyped-def]
    """The same, highest byte first."""
    for i in range(width):
        store8(out, o + i, v >> (8 * (width - 1 - i)))
    return o + width


@small
def integer(buf, p, n, width, signed, out, o):  # type: ignore[no-untyped-def]
    """An integer of 1 to 8 bytes; one that does not fit is an error."""
    end = p + n
    negative = n > 0 and load8(buf, p) == 45
    if negative:
        p += 1
    while end - p > 1 and load8(buf, p) == 48:
        # ZEROFILL may show hundreds of them.
        p += 1
    digits = end - p
    if digits < 1 or digits > 20 or (negative and not signed):
        return np.int64(_BAD)
    v = np.uint64(0)
    for i in range(p, end):
        d = np.uint64(load8(buf, i)) - np.uint64(48)
        if d > np.uint64(9):
            return np.int64(_BAD)
        if i == p + 19 and (v > TENTH or (v == TENTH and d > np.uint64(5))):
            # Only the twentieth digit can leave the 64 bits.
            return np.int64(_BAD)
        v = v * np.uint64(10) + d
    bits = 8 * width
    if signed:
        half = np.uint64(1) << np.uint64(bits - 1)
        if v > half or (v == half and not negative):
            return np.int64(_BAD)
    elif bits < 64 and v >> np.uint64(bits) != np.uint64(0):
        return np.int64(_BAD)
    stored = np.int64(v)
    return little_endian(-stored if negative else stored, width, out, o)


@small
def counted(buf, p, n, prefix, out, o):  # type: ignore[no-untyped-def]
    """Bytes behind their length in ``prefix`` bytes."""
    if prefix < 4 and n >> (8 * prefix) != 0:
        return np.int64(_BAD)
    little_endian(n, prefix, out, o)
    copy(buf, p, out, o + prefix, n)
    return o + prefix + n


@small
def trimmed(buf, p, n, most, prefix, out, o):  # type: ignore[no-untyped-def]
    """The same without zero bytes at the end, as BINARY(n) is logged; ``n`` is at most ``most``."""
    if n > most:
        return np.int64(_BAD)
    while n > 0 and load8(buf, p + n - 1) == 0:
        n -= 1
    return counted(buf, p, n, prefix, out, o)


@small
def _number(buf, p, n):  # type: ignore[no-untyped-def]
    # n digits as a number, -1 for anything else; the caller has seen that they are there.
    v = np.int64(0)
    for i in range(p, p + n):
        d = load8(buf, i) - 48
        if d < 0 or d > 9:
            return np.int64(_BAD)
        v = v * 10 + d
    return v


@small
def _date_parts(buf, p):  # type: ignore[no-untyped-def]
    # (year, month, day) of ten bytes; a year of -1 for anything else.
    year, month, day = _number(buf, p, 4), _number(buf, p + 5, 2), _number(buf, p + 8, 2)
    if load8(buf, p + 4) != 45 or load8(buf, p + 7) != 45 or month < 0 or day < 0:
        year = np.int64(_BAD)
    if month > 12 or day > 31:
        year = np.int64(_BAD)
    return year, month, day


@small
def _clock_parts(buf, p):  # type: ignore[no-untyped-def]
    # (minute, second) of the six bytes ":mm:ss"; a minute of -1 for anything else.
    minute, second = _number(buf, p + 1, 2), _number(buf, p + 4, 2)
    if load8(buf, p) != 58 or load8(buf, p + 3) != 58 or second < 0 or minute > 59 or second > 59:
        minute = np.int64(_BAD)
    return minute, second


@small
def _fraction(buf, p, fsp):  # type: ignore[no-untyped-def]
    # The stored number of ".digits": fractions of odd length are stored with one digit more.
    if fsp == 0:
        return np.int64(0)
    if load8(buf, p) != 46:
        return np.int64(_BAD)
    v = _number(buf, p + 1, fsp)
    return v * 10 if v > 0 and fsp & 1 else v


@small
def _fraction_text(fsp):  # type: ignore[no-untyped-def]
    return fsp + 1 if fsp > 0 else fsp


@rare
def date(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """DATE."""
    if n != 10:
        return np.int64(_BAD)
    year, month, day = _date_parts(buf, p)
    if year < 0:
        return np.int64(_BAD)
    return little_endian(year << 9 | month << 5 | day, 3, out, o)


@small
def _moment(buf, p, n, fsp):  # type: ignore[no-untyped-def]
    # (year, month, day, hour, minute, second, micros); a year of -1 for anything else.
    if n != 19 + _fraction_text(fsp):
        zero = np.int64(0)
        return np.int64(_BAD), zero, zero, zero, zero, zero, zero
    year, month, day = _date_parts(buf, p)
    hour = _number(buf, p + 11, 2)
    minute, second = _clock_parts(buf, p + 13)
    micros = _fraction(buf, p + 19, fsp)
    if hour < 0 or hour > 23 or minute < 0 or micros < 0 or load8(buf, p + 10) != 32:
        year = np.int64(_BAD)
    return year, month, day, hour, minute, second, micros


@small
def put_datetime(year, month, day, hour, minute, second, micros, fsp, out, o):  # type: ignore[no-untyped-def]
    """A DATETIME(fsp) as row images store it; ``micros`` of that precision."""
    v = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
    o = big_endian(v + 0x8000000000, 5, out, o)
    return big_endian(micros, (fsp + 1) >> 1, out, o)


@small
def put_timestamp(year, month, day, hour, minute, second, micros, fsp, out, o):  # type: ignore[no-untyped-def]
    """A TIMESTAMP(fsp) in UTC as row images store it; one that has no place there is an error."""
    seconds = np.int64(0)
    if year > 0 or month > 0 or day > 0:
        seconds = day_number(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
    if seconds < 0 or seconds >> 32 != 0:
        return np.int64(_BAD)
    o = big_endian(seconds, 4, out, o)
    return big_endian(micros, (fsp + 1) >> 1, out, o)


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
    negative = n > 0 and load8(buf, p) == 45
    if negative:
        p += 1
        n -= 1
    wide = n - 6 - _fraction_text(fsp)
    if wide < 2 or wide > 3:
        return np.int64(_BAD)
    hour = _number(buf, p, wide)
    minute, second = _clock_parts(buf, p + wide)
    micros = _fraction(buf, p + wide + 6, fsp)
    if hour < 0 or hour > 838 or minute < 0 or micros < 0:
        return np.int64(_BAD)
    size = (fsp + 1) >> 1
    v = (hour << 12 | minute << 6 | second) << (8 * size) | micros
    v = (np.int64(0x800000) << (8 * size)) + (-v if negative else v)
    return big_endian(v, 3 + size, out, o)


@rare
def year(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """YEAR; of YEAR(2) the server shows two digits, which say 1970 to 2069."""
    v = _number(buf, p, n) if n == 4 or n == 2 else np.int64(_BAD)
    if v < 0:
        return np.int64(_BAD)
    if n == 2:
        v += 1900 if v >= 70 else 2000
    v = v - 1900 if v != 0 else v
    if v < 0 or v > 255:
        return np.int64(_BAD)
    store8(out, o, v)
    return o + 1


@small
def _group(buf, first, at, digits):  # type: ignore[no-untyped-def]
    # Digits at ``at``; those before ``first`` are zeros that are not shown. -1 for no digit.
    v = np.int64(0)
    for i in range(at, at + digits):
        d = load8(buf, i) - 48 if i >= first else np.int64(0)
        if d < 0 or d > 9:
            return np.int64(_BAD)
        v = v * 10 + d
    return v


@rare
def decimal(buf, p, n, precision, scale, out, o):  # type: ignore[no-untyped-def]
    """DECIMAL(precision, scale), packed."""
    end = p + n
    negative = n > 0 and load8(buf, p) == 45
    if negative:
        p += 1
    whole = precision - scale
    point = end - _fraction_text(scale)
    if point <= p or (scale > 0 and load8(buf, point) != 46):
        return np.int64(_BAD)
    while point - p > whole:
        # The zero before the point of a number without whole digits, or ZEROFILL's.
        if load8(buf, p) != 48:
            return np.int64(_BAD)
        p += 1
    mask = np.int64(-1) if negative else np.int64(0)
    start = o
    at = point - whole
    left = whole
    while left > 0:
        digits = left % 9 if left % 9 != 0 else np.int64(9)
        v = _group(buf, p, at, digits)
        if v < 0:
            return np.int64(_BAD)
        o = big_endian(v ^ mask, GROUP_BYTES[digits], out, o)
        at += digits
        left -= digits
    at = point + 1
    left = scale
    while left > 0:
        digits = min(left, np.int64(9))
        v = _group(buf, p, at, digits)
        if v < 0:
            return np.int64(_BAD)
        o = big_endian(v ^ mask, GROUP_BYTES[digits], out, o)
        at += digits
        left -= digits
    store8(out, start, load8(out, start) ^ 0x80)
    return o


@rare
def double(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """DOUBLE."""
    bits, ok = text_double(buf, p, p + n)
    if not ok:
        return np.int64(_BAD)
    store64(out, o, bits)
    return o + 8


@rare
def float32(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """FLOAT, of the text of the double that is equal to it; one that is none is an error."""
    bits, ok = text_double(buf, p, p + n)
    fraction = bits & ((np.int64(1) << 52) - 1)
    exponent = (bits >> 52) & 0x7FF
    if not ok:
        return np.int64(_BAD)
    sign = (bits >> 63) & 1
    if exponent == 0 and fraction == 0:
        store32(out, o, sign << 31)
        return o + 4
    shift = np.int64(29)
    e = exponent - 1023 + 127
    if e <= 0:
        # The highest bit of a float's subnormal is stored as such.
        fraction |= np.int64(1) << 52
        shift += 1 - e
        e = np.int64(0)
    if e > 254 or shift > 52 or fraction & ((np.int64(1) << shift) - 1) != 0:
        return np.int64(_BAD)
    store32(out, o, sign << 31 | e << 23 | fraction >> shift)
    return o + 4
