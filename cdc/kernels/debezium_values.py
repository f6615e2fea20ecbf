"""One value of a row image as Debezium's JSON: numbers since the epoch, base64, texts of members.

Types and their forms:
https://debezium.io/documentation/reference/stable/connectors/mysql.html#mysql-data-types
"""

from __future__ import annotations

import numpy as np

from cdc.kernels import debezium_layout as D  # noqa: N812
from cdc.kernels import json_layout as J  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.cell import integer, little_endian
from cdc.kernels.compile import rare, small
from cdc.kernels.digits import put_signed
from cdc.kernels.float_bits import widened
from cdc.kernels.json_values import put_base64, put_double, put_enum, put_float, put_padded
from cdc.kernels.memory import copy_padded, load8, load32, store8, store32, store64
from cdc.kernels.values.civil import civil_date, day_number
from cdc.kernels.values.dates import clock_text, date_text, fraction_text
from cdc.kernels.values.decimals import GROUP_BYTES, MAX_PRECISION
from cdc.kernels.values.errors import (
    BIT_LENGTH,
    DECIMAL_DIGITS,
    DECIMAL_PRECISION,
    LENGTH,
    NOT_FINITE,
    TEMPORAL_RANGE,
)
from cdc.kernels.values.escape import utf8
from cdc.kernels.values.json_text import double
from cdc.kernels.values.mysql_json import mysql_json
from cdc.kernels.values.pow10 import POW10_64
from cdc.kernels.values.text import text

_NULL = int.from_bytes(b"null", "little")
_TRUE = int.from_bytes(b"true", "little")
_FALS = int.from_bytes(b"fals", "little")
_QUOTE = 34
# The longest DECIMAL takes 27 bytes with its sign; its base64 text ends before them.
_LIMBS = 28
_SCRATCH = 48


@small
def _null(out, o):  # type: ignore[no-untyped-def]
    store32(out, o, _NULL)
    return o + 4


@small
def _no_time(optional, out, o):  # type: ignore[no-untyped-def]
    # A zero date, or one that no calendar has.
    if optional:
        return _null(out, o)
    store8(out, o, 48)
    return o + 1


@small
def big_endian(buf, p, n):  # type: ignore[no-untyped-def]
    """Unsigned big-endian integer of up to 8 bytes."""
    v = np.int64(0)
    for i in range(n):
        v = v << 8 | load8(buf, p + i)
    return v


@small
def _micros(buf, p, fsp):  # type: ignore[no-untyped-def]
    # A fraction of fsp digits: its unit is 10**-2, 10**-4 or 10**-6 by its length.
    n = (fsp + 1) >> 1
    return big_endian(buf, p, n) * np.int64(POW10_64[6 - 2 * n])


@small
def _days_of_month(year, month):  # type: ignore[no-untyped-def]
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@small
def _is_date(year, month, day):  # type: ignore[no-untyped-def]
    return month > 0 and day > 0 and day <= _days_of_month(year, month)


@rare
def _date(buf, p, optional, out, o):  # type: ignore[no-untyped-def]
    v = load8(buf, p) | load8(buf, p + 1) << 8 | load8(buf, p + 2) << 16
    year, month, day = v >> 9, v >> 5 & 15, v & 31
    if year > 9999 or month > 12:
        return p, TEMPORAL_RANGE
    if not _is_date(year, month, day):
        return _no_time(optional, out, o), 0
    return put_signed(day_number(year, month, day), out, o), 0


@small
def _datetime(buf, p, fsp, optional, out, o):  # type: ignore[no-untyped-def]
    v = big_endian(buf, p, 5) - 0x8000000000
    micros = _micros(buf, p + 5, fsp)
    ymd = v >> 17
    year, month, day = (ymd >> 5) // 13, (ymd >> 5) % 13, ymd & 31
    hour, minute, second = v >> 12 & 31, v >> 6 & 63, v & 63
    if v < 0 or year > 9999 or hour > 23 or minute > 59 or second > 59 or micros > 999999:
        return p, TEMPORAL_RANGE
    if not _is_date(year, month, day):
        return _no_time(optional, out, o), 0
    seconds = day_number(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
    if fsp <= 3:
        return put_signed(seconds * 1000 + micros // 1000, out, o), 0
    return put_signed(seconds * 1000000 + micros, out, o), 0


@rare
def _time(buf, p, fsp, out, o):  # type: ignore[no-untyped-def]
    n = (fsp + 1) >> 1
    v = big_endian(buf, p, 3 + n) - (0x800000 << (8 * n))
    negative = v < 0
    v = abs(v)
    micros = (v & ((1 << (8 * n)) - 1)) * np.int64(POW10_64[6 - 2 * n])
    v >>= 8 * n
    hour, minute, second = v >> 12, v >> 6 & 63, v & 63
    if hour > 838 or minute > 59 or second > 59 or micros > 999999:
        return p, TEMPORAL_RANGE
    micros += (hour * 3600 + minute * 60 + second) * 1000000
    return put_signed(-micros if negative else micros, out, o), 0


@small
def _timestamp(buf, p, fsp, out, o):  # type: ignore[no-untyped-def]
    seconds = big_endian(buf, p, 4)
    micros = _micros(buf, p + 4, fsp)
    if micros > 999999:
        return p, TEMPORAL_RANGE
    days = seconds // 86400
    rest = seconds - days * 86400
    year, month, day = civil_date(days)
    store8(out, o, _QUOTE)
    o = date_text(year, month, day, out, o + 1)
    store8(out, o, 84)
    o = clock_text(rest // 3600, rest // 60 % 60, rest % 60, out, o + 1)
    o = fraction_text(micros, fsp, out, o)
    store8(out, o, 90)
    store8(out, o + 1, _QUOTE)
    return o + 2, 0


@rare
def _times_and_plus(out, at, factor, more):  # type: ignore[no-untyped-def]
    # The big-endian number at out[at:at+_LIMBS], times factor, plus more.
    carry = more
    for i in range(_LIMBS - 1, -1, -1):
        carry += load8(out, at + i) * factor
        store8(out, at + i, carry & 255)
        carry >>= 8


@rare
def _negate(out, at, n):  # type: ignore[no-untyped-def]
    carry = 1
    for i in range(n - 1, -1, -1):
        v = (load8(out, at + i) ^ 255) + carry
        store8(out, at + i, v & 255)
        carry = v >> 8


@rare
def _decimal(buf, p, precision, scale, out, o):  # type: ignore[no-untyped-def]
    """The unscaled number: fewest bytes of big-endian two's complement, as base64."""
    if precision < 1 or precision > MAX_PRECISION or scale < 0 or scale > precision:
        return p, DECIMAL_PRECISION
    negative = load8(buf, p) & 128 == 0
    flip = 255 if negative else 0
    at = o + _SCRATCH
    n = 8 if precision <= 18 else _LIMBS
    v = np.int64(0)
    if n > 8:
        store64(out, at, 0)
        store64(out, at + 8, 0)
        store64(out, at + 16, 0)
        store32(out, at + 24, 0)
    # The sign bit is in whichever group comes first.
    sign = True
    for part in range(2):
        left = precision - scale if part == 0 else scale
        while left > 0:
            digits = min(left, 9)
            if part == 0 and left % 9 != 0:
                digits = left % 9
            size = GROUP_BYTES[digits]
            group = np.int64(0)
            for i in range(size):
                group = group << 8 | (load8(buf, p + i) ^ flip)
            if sign:
                group ^= 128 << (8 * (size - 1))
                sign = False
            if group >= np.int64(POW10_64[digits]):
                return p, DECIMAL_DIGITS
            if n > 8:
                _times_and_plus(out, at, np.int64(POW10_64[digits]), group)
            else:
                v = v * np.int64(POW10_64[digits]) + group
            p += size
            left -= digits
    if n == 8:
        for i in range(8):
            store8(out, at + i, v >> (56 - 8 * i))
    if negative:
        _negate(out, at, n)
    first = at
    while first < at + n - 1:
        top, following = load8(out, first), load8(out, first + 1) & 128
        if not ((top == 0 and following == 0) or (top == 255 and following != 0)):
            break
        first += 1
    return put_base64(out, first, at + n - first, out, o), 0


@rare
def _wide_float(buf, p, out, o):  # type: ignore[no-untyped-def]
    bits, finite = widened(load32(buf, p))
    if not finite:
        return p, NOT_FINITE
    return double(bits, out, o), 0


@rare
def _bits(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    if n < 1 or n > 8:
        return p, BIT_LENGTH
    at = o + _SCRATCH
    for i in range(n):
        store8(out, at + i, load8(buf, p + n - 1 - i))
    return put_base64(out, at, n, out, o), 0


@rare
def _set(buf, p, n, c, forms, members, blob, out, o):  # type: ignore[no-untyped-def]
    if n > 8:
        return p, LENGTH
    bits = little_endian(buf, p, n)
    store8(out, o, _QUOTE)
    o += 1
    first = True
    for i in range(n * 8):
        if bits >> np.uint64(i) & np.uint64(1) == np.uint64(0):
            continue
        if i >= forms[c, D.N_MEMBERS]:
            return p, LENGTH
        if not first:
            store8(out, o, 44)
            o += 1
        first = False
        m = forms[c, D.N_MEMBER] + i
        o = copy_padded(blob, members[m, J.M_TEXT], out, o, members[m, J.M_LENGTH])
    store8(out, o, _QUOTE)
    return o + 1, 0


@small
def _closed(o, error, out):  # type: ignore[no-untyped-def]
    if error != 0:
        return o, error
    store8(out, o, _QUOTE)
    return o + 1, 0


@rare
def _rare(buf, p, n, c, columns, forms, members, blob, texts, out, o):  # type: ignore[no-untyped-def]
    form = forms[c, D.N_FORM]
    optional = forms[c, D.N_OPTIONAL] != 0
    a = columns[c, L.C_A]
    if form == D.FORM_FLOAT:
        return put_float(buf, p, out, o)
    if form == D.FORM_WIDE_FLOAT:
        return _wide_float(buf, p, out, o)
    if form == D.FORM_DATE:
        return _date(buf, p, optional, out, o)
    if form == D.FORM_TIME:
        return _time(buf, p, a, out, o)
    if form == D.FORM_YEAR:
        # 0000, too, is 1900 to the connector; no other year is.
        return put_signed(load8(buf, p) + 1900, out, o), 0
    if form == D.FORM_BOOLEAN:
        if load8(buf, p) & 1:
            store32(out, o, _TRUE)
            return o + 4, 0
        store32(out, o, _FALS)
        store8(out, o + 4, 101)
        return o + 5, 0
    if form == D.FORM_BITS:
        return _bits(buf, p, n, out, o)
    if form == D.FORM_BYTES:
        return put_base64(buf, p, n, out, o), 0
    if form == D.FORM_PADDED:
        return put_padded(buf, p, n, a, out, o), 0
    if form == D.FORM_ENUM:
        first, count = forms[c, D.N_MEMBER], forms[c, D.N_MEMBERS]
        return put_enum(buf, p, n, first, count, members, blob, out, o)
    if form == D.FORM_SET:
        return _set(buf, p, n, c, forms, members, blob, out, o)
    store8(out, o, _QUOTE)
    if form == D.FORM_TEXT:
        o, error = text(buf, p, n, a, texts, out, o + 1)
        return _closed(o, error, out)
    if form == D.FORM_JSON:
        o, error = mysql_json(buf, p, n, out, o + 1)
        return _closed(o, error, out)
    return p, LENGTH


@small
def put_value(buf, p, n, c, columns, forms, members, blob, texts, out, o):  # type: ignore[no-untyped-def]
    """The value ``buf[p:p+n]`` of column row ``c``: ``(new o, 0)`` or ``(offset, code)``."""
    form = forms[c, D.N_FORM]
    if form == D.FORM_INTEGER:
        return put_signed(integer(buf, p, columns[c, L.C_OP]), out, o), 0
    if form == D.FORM_UTF8:
        store8(out, o, _QUOTE)
        o, error = utf8(buf, p, n, out, o + 1)
        return _closed(o, error, out)
    if form == D.FORM_DATETIME:
        return _datetime(buf, p, columns[c, L.C_A], forms[c, D.N_OPTIONAL] != 0, out, o)
    if form == D.FORM_DECIMAL:
        return _decimal(buf, p, columns[c, L.C_A], columns[c, L.C_B], out, o)
    if form == D.FORM_DOUBLE:
        return put_double(buf, p, out, o)
    if form == D.FORM_TIMESTAMP:
        return _timestamp(buf, p, columns[c, L.C_A], out, o)
    return _rare(buf, p, n, c, columns, forms, members, blob, texts, out, o)
