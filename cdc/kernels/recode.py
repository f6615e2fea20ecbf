"""Values of one column definition stored as those of another, exactly or not at all.

Common shape: each function reads a stored value at ``buf[p]`` and writes it at ``out[o]``, where
the caller has room. It returns the new offset, or -1 where the other definition has no place for
that very value. Formats: ``cdc.kernels.values``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.charsets import (
    ENTRY,
    KIND_ASCII,
    KIND_GB18030,
    KIND_SINGLE,
    KIND_UCS2,
    KIND_UTF8,
    KIND_UTF16,
    KIND_UTF16LE,
    KIND_UTF32,
    MAX_CODES,
)
from cdc.kernels.compile import rare
from cdc.kernels.digits import put_signed, put_unsigned
from cdc.kernels.float_bits import narrowed, widened
from cdc.kernels.memory import copy, load8, load32, load64, store8, store32, store64
from cdc.kernels.text_values import big_endian, little_endian
from cdc.kernels.text_values import decimal as packed_decimal
from cdc.kernels.text_values import integer as integer_of_text
from cdc.kernels.values.dates import big_endian as from_big_endian
from cdc.kernels.values.decimals import decimal as decimal_text
from cdc.kernels.values.errors import OK
from cdc.kernels.values.escape import put_code_point
from cdc.kernels.values.pow10 import POW10_64
from cdc.kernels.values.text import GB18030_BEYOND, character

DIGITS: Final = 128
"""Bytes that ``spare`` has at least: a decimal's text, and what its kernel writes behind it."""

# ``charsets.encoder``
ENCODERS = types.Array(types.uint32, 1, "C", readonly=True)

_BAD: Final = -1
_POINT: Final = 46
_ZERO: Final = 48
_BMP: Final = 0x10000
_MB3: Final = 1  # the code of utf8mb3
_TIME_ZERO: Final = 0x800000
_DATETIME_ZERO: Final = 0x8000000000
_DAY_AT: Final = 17  # below it a DATETIME has its time of day


@rare
def _rescaled(spare, end, scale, wanted):  # type: ignore[no-untyped-def]
    """``spare[:end]``, a number's text with ``scale`` decimals, with ``wanted``: its end, or -1."""
    if scale == 0 and wanted > 0:
        store8(spare, end, _POINT)
        end += 1
    for _ in range(scale, wanted):
        store8(spare, end, _ZERO)
        end += 1
    for _ in range(wanted, scale):
        end -= 1
        if load8(spare, end) != _ZERO:
            return np.int64(_BAD)
    return end - 1 if wanted == 0 and scale > 0 else end


@rare
def decimal(buf, p, before, after, spare, out, o):  # type: ignore[no-untyped-def]
    """DECIMAL, whose precision and scale are ``before``: ``precision << 8 | scale``."""
    end, error = decimal_text(buf, p, before >> 8, before & 255, spare, 0)
    if error != OK:
        return np.int64(_BAD)
    end = _rescaled(spare, end, before & 255, after & 255)
    if end < 0:
        return np.int64(_BAD)
    return packed_decimal(spare, 0, end, after >> 8, after & 255, out, o)


@rare
def decimal_of_integer(value, signed, after, spare, out, o):  # type: ignore[no-untyped-def]
    """An int64 (without sign: a uint64) as DECIMAL, ``after`` as in ``decimal``."""
    end = put_signed(value, spare, 0) if signed else put_unsigned(np.uint64(value), spare, 0)
    end = _rescaled(spare, end, np.int64(0), after & 255)
    return packed_decimal(spare, 0, end, after >> 8, after & 255, out, o)


@rare
def integer_of_decimal(buf, p, before, width, signed, spare, out, o):  # type: ignore[no-untyped-def]
    """DECIMAL, ``before`` as in ``decimal``, as an integer of ``width`` bytes."""
    end, error = decimal_text(buf, p, before >> 8, before & 255, spare, 0)
    if error != OK:
        return np.int64(_BAD)
    end = _rescaled(spare, end, before & 255, np.int64(0))
    if end < 0:
        return np.int64(_BAD)
    return integer_of_text(spare, 0, end, width, signed, out, o)


@rare
def double_of_float(buf, p, out, o):  # type: ignore[no-untyped-def]
    """FLOAT as DOUBLE."""
    bits, finite = widened(load32(buf, p))
    if not finite:
        return np.int64(_BAD)
    store64(out, o, np.int64(bits))
    return o + 8


@rare
def float_of_double(buf, p, out, o):  # type: ignore[no-untyped-def]
    """DOUBLE as FLOAT."""
    word, exact = narrowed(load64(buf, p))
    if not exact:
        return np.int64(_BAD)
    store32(out, o, word)
    return o + 4


@rare
def datetime_of_date(buf, p, after, out, o):  # type: ignore[no-untyped-def]
    """DATE as DATETIME with ``after`` digits behind the seconds: its midnight."""
    v = np.int64(load8(buf, p) | load8(buf, p + 1) << 8 | load8(buf, p + 2) << 16)
    year, month, day = v >> 9, v >> 5 & 15, v & 31
    v = ((year * 13 + month) << 5 | day) << _DAY_AT
    o = big_endian(v + _DATETIME_ZERO, 5, out, o)
    return big_endian(np.int64(0), (after + 1) >> 1, out, o)


@rare
def date_of_datetime(buf, p, before, out, o):  # type: ignore[no-untyped-def]
    """DATETIME with ``before`` digits behind the seconds as DATE, if it is midnight."""
    v = from_big_endian(buf, p, 5) - _DATETIME_ZERO
    fraction = from_big_endian(buf, p + 5, (before + 1) >> 1)
    if v < 0 or v & ((1 << _DAY_AT) - 1) != 0 or fraction != 0:
        return np.int64(_BAD)
    months, day = v >> _DAY_AT + 5, v >> _DAY_AT & 31
    return little_endian(months // 13 << 9 | months % 13 << 5 | day, 3, out, o)


@rare
def clock(buf, p, head, signed, before, after, out, o):  # type: ignore[no-untyped-def]
    """DATETIME, TIMESTAMP or TIME with ``before`` digits behind the seconds.

    ``head`` bytes come before the fraction; ``signed``: both are one signed number, as of TIME.
    """
    n, m = (before + 1) >> 1, (after + 1) >> 1
    whole = from_big_endian(buf, p, head)
    part = from_big_endian(buf, p + head, n)
    negative = False
    if signed:
        v = (whole << (8 * n) | part) - (np.int64(_TIME_ZERO) << (8 * n))
        negative = v < 0
        v = abs(v)
        whole, part = v >> (8 * n), v & ((np.int64(1) << (8 * n)) - 1)
    micros = part * np.int64(POW10_64[6 - 2 * n])
    if micros % np.int64(POW10_64[6 - after]) != 0:
        return np.int64(_BAD)
    part = micros // np.int64(POW10_64[6 - 2 * m])
    if signed:
        v = whole << (8 * m) | part
        v = (np.int64(_TIME_ZERO) << (8 * m)) + (-v if negative else v)
        return big_endian(v, head + m, out, o)
    copy(buf, p, out, o, head)
    return big_endian(part, m, out, o + head)


@rare
def _utf8(c, out, o):  # type: ignore[no-untyped-def]
    if c < 0x80:
        store8(out, o, c)
        return o + 1
    # Escapes nothing above ASCII.
    return put_code_point(c, out, o)


@rare
def _wide(c, kind, out, o):  # type: ignore[no-untyped-def]
    if kind == KIND_UTF32:
        return big_endian(c, 4, out, o)
    if c >= _BMP:
        if kind == KIND_UCS2:
            return np.int64(_BAD)
        high, low = 0xD800 | (c - _BMP) >> 10, 0xDC00 | (c - _BMP) & 0x3FF
        if kind == KIND_UTF16LE:
            return little_endian(high | low << 16, 4, out, o)
        return big_endian(high << 16 | low, 4, out, o)
    if kind == KIND_UTF16LE:
        return little_endian(c, 2, out, o)
    return big_endian(c, 2, out, o)


@rare
def _beyond(c, out, o):  # type: ignore[no-untyped-def]
    # Of GB 18030: four bytes of 126, 10, 126 and 10 values.
    v = c - _BMP + GB18030_BEYOND
    store8(out, o + 3, 0x30 + v % 10)
    v //= 10
    store8(out, o + 2, 0x81 + v % 126)
    v //= 126
    store8(out, o + 1, 0x30 + v % 10)
    store8(out, o, 0x81 + v // 10)
    return o + 4


@rare
def _encoded(c, code, kind, encoders, at, out, o):  # type: ignore[no-untyped-def]
    if kind == KIND_UTF8:
        return np.int64(_BAD) if code == _MB3 and c >= _BMP else _utf8(c, out, o)
    if kind == KIND_ASCII:
        if c >= 0x80:
            return np.int64(_BAD)
        store8(out, o, c)
        return o + 1
    if kind in (KIND_UCS2, KIND_UTF16, KIND_UTF16LE, KIND_UTF32):
        return _wide(c, kind, out, o)
    if kind < KIND_SINGLE or kind > KIND_GB18030:
        return np.int64(_BAD)
    if c >= _BMP:
        return _beyond(c, out, o) if kind == KIND_GB18030 else np.int64(_BAD)
    if at < 0 or at + _BMP > encoders.size:
        return np.int64(_BAD)
    v = np.int64(encoders[at + c])
    if v == 0 and c != 0:
        return np.int64(_BAD)
    n = 1 if v < 0x100 else 2 if v < 0x10000 else 3 if v < 0x1000000 else 4
    return big_endian(v, n, out, o)


@rare
def text(buf, p, n, code, into, tables, encoders, at, out, o):  # type: ignore[no-untyped-def]
    """``n`` bytes of character set ``code`` in that of ``into``.

    Returns (new offset or -1, characters, the last one's code point or -1).
    ``tables`` is ``charsets.tables()``; ``encoders[at:]`` begins with ``charsets.encoder(into)``
    where that has one. ``out`` has room for four bytes of each byte.
    """
    end = p + n
    count, last = np.int64(0), np.int64(-1)
    if into < 0 or into >= MAX_CODES or tables.size < MAX_CODES * ENTRY:
        return np.int64(_BAD), count, last
    kind = np.int64(tables[into * ENTRY])
    while p < end:
        error, last, length = character(buf, p, end, code, tables)
        if error != OK or length <= 0:
            return np.int64(_BAD), count, last
        o = _encoded(last, into, kind, encoders, at, out, o)
        if o < 0:
            return np.int64(_BAD), count, last
        p += length
        count += 1
    return o, count, last
