"""Text of any character set → JSON-escaped UTF-8, by the tables of ``cdc.kernels.charsets``.

What a server cannot map is an error and never a replacement character: TEXT_INVALID for a sequence
that the character set does not have, TEXT_UNMAPPED for one that the server itself shows as ``?``.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.charsets import (
    ENTRY,
    GB18030_BMP,
    KIND_ASCII,
    KIND_BINARY,
    KIND_GB18030,
    KIND_SINGLE,
    KIND_TRIPLE,
    KIND_UCS2,
    KIND_UTF8,
    KIND_UTF16,
    KIND_UTF16LE,
    KIND_UTF32,
    MAX_CODES,
)
from cdc.kernels.compile import function
from cdc.kernels.values.binary import binary
from cdc.kernels.values.errors import CHARSET_UNKNOWN, OK, TEXT_INVALID, TEXT_UNMAPPED
from cdc.kernels.values.escape import (
    ascii_text,
    copy_plain,
    put_code_point,
    utf8,
    utf8_code_point,
    utf8_length,
)
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT, TABLE16

# Linear index of 0x90308130, the first beyond the BMP.
GB18030_BEYOND = 189000
# (error or 0, code point, length)
_STEP = types.UniTuple(types.int64, 3)


@function(I64(TABLE16, I64, I64))
def _offset(tables, code, word):  # type: ignore[no-untyped-def]
    i = code * ENTRY + word
    return np.int64(tables[i]) | np.int64(tables[i + 1]) << 16


@function(_STEP(BUF, I64, I64))
def _gb18030_linear(buf, p, end):  # type: ignore[no-untyped-def]
    if p + 4 > end:
        return TEXT_INVALID, 0, 0
    a = np.int64(buf[p]) - 0x81
    b = np.int64(buf[p + 1]) - 0x30
    c = np.int64(buf[p + 2]) - 0x81
    d = np.int64(buf[p + 3]) - 0x30
    if a < 0 or a > 125 or b < 0 or b > 9 or c < 0 or c > 125 or d < 0 or d > 9:
        return TEXT_INVALID, 0, 0
    return OK, ((a * 10 + b) * 126 + c) * 10 + d, 4


@function(_STEP(BUF, I64, I64, I64, I64, TABLE16))
def _multi_byte(buf, p, end, kind, code, tables):  # type: ignore[no-untyped-def]
    """The character at ``p``, whose first byte stands for none alone."""
    b = np.int64(buf[p])
    if b < 0x81 or p + 2 > end:
        return TEXT_INVALID, 0, 0
    b2 = np.int64(buf[p + 1])
    if kind == KIND_TRIPLE and b == 0x8F:
        if p + 3 > end or b2 < 0xA1 or buf[p + 2] < np.uint8(0xA1):
            return TEXT_INVALID, 0, 0
        i = _offset(tables, code, 6) + ((b2 & 127) << 8 | np.int64(buf[p + 2]))
        return OK, np.int64(tables[i]), 3
    if kind == KIND_GB18030 and b2 < 0x40:
        error, linear, length = _gb18030_linear(buf, p, end)
        if error != OK:
            return error, 0, 0
        if linear < GB18030_BMP:
            return OK, np.int64(tables[_offset(tables, code, 6) + linear]), length
        if linear < GB18030_BEYOND or linear >= GB18030_BEYOND + 0x100000:
            return TEXT_UNMAPPED, 0, 0
        return OK, linear - GB18030_BEYOND + 0x10000, length
    return OK, np.int64(tables[_offset(tables, code, 4) + ((b & 127) << 8 | b2)]), 2


@function(CHECKED(BUF, I64, I64, I64, TABLE16, OUT, I64))
def _by_table(buf, p, n, code, tables, out, o):  # type: ignore[no-untyped-def]
    end = p + n
    kind = np.int64(tables[code * ENTRY])
    keeps_ascii = tables[code * ENTRY + 1] != 0
    single = _offset(tables, code, 2)
    while p < end:
        if keeps_ascii and p + 8 <= end:
            p, o = copy_plain(buf, p, end, out, o)
            if p >= end:
                break
        b = np.int64(buf[p])
        c = np.int64(tables[single + b])
        if c != 0 or b == 0:
            o = put_code_point(c, out, o)
            p += 1
            continue
        if kind == KIND_SINGLE:
            return p, TEXT_UNMAPPED
        error, c, length = _multi_byte(buf, p, end, kind, code, tables)
        if error != OK:
            return p, error
        if c == 0:
            return p, TEXT_UNMAPPED
        o = put_code_point(c, out, o)
        p += length
    return o, 0


@function(_STEP(BUF, I64, I64, I64))
def _wide(buf, p, end, kind):  # type: ignore[no-untyped-def]
    """The character at ``p`` of ucs2, utf16, utf16le or utf32."""
    if kind == KIND_UTF32:
        if p + 4 > end:
            return TEXT_INVALID, 0, 0
        c = np.int64(buf[p]) << 24 | np.int64(buf[p + 1]) << 16
        return OK, c | np.int64(buf[p + 2]) << 8 | np.int64(buf[p + 3]), 4
    if p + 2 > end:
        return TEXT_INVALID, 0, 0
    low = 0 if kind == KIND_UTF16LE else 1
    c = np.int64(buf[p + 1 - low]) << 8 | np.int64(buf[p + low])
    if c & 0xFC00 != 0xD800 or kind == KIND_UCS2:
        return OK, c, 2
    if p + 4 > end:
        return TEXT_INVALID, 0, 0
    d = np.int64(buf[p + 3 - low]) << 8 | np.int64(buf[p + 2 + low])
    if d & 0xFC00 != 0xDC00:
        return TEXT_INVALID, 0, 0
    return OK, 0x10000 + ((c & 0x3FF) << 10 | (d & 0x3FF)), 4


@function(CHECKED(BUF, I64, I64, I64, OUT, I64))
def _by_units(buf, p, n, kind, out, o):  # type: ignore[no-untyped-def]
    end = p + n
    while p < end:
        error, c, length = _wide(buf, p, end, kind)
        if error != OK:
            return p, error
        if c > 0x10FFFF or c & 0x7FFFF800 == 0xD800:
            return p, TEXT_INVALID
        o = put_code_point(c, out, o)
        p += length
    return o, 0


@function(CHECKED(BUF, I64, I64, I64, TABLE16, OUT, I64))
def text(buf, p, n, code, tables, out, o):  # type: ignore[no-untyped-def]
    """Text of ``n`` bytes in the character set ``code``; ``tables`` is ``charsets.tables()``.

    Errors: CHARSET_UNKNOWN, TEXT_INVALID, TEXT_UNMAPPED; the position is that of the character.
    """
    if code < 0 or code >= MAX_CODES or tables.size < MAX_CODES * ENTRY:
        return p, CHARSET_UNKNOWN
    kind = np.int64(tables[code * ENTRY])
    if kind == KIND_UTF8:
        return utf8(buf, p, n, out, o)
    if KIND_SINGLE <= kind <= KIND_GB18030:
        return _by_table(buf, p, n, code, tables, out, o)
    if kind == KIND_ASCII:
        return ascii_text(buf, p, n, out, o)
    if kind == KIND_BINARY:
        return binary(buf, p, n, 0, out, o), 0
    if kind in (KIND_UCS2, KIND_UTF16, KIND_UTF16LE, KIND_UTF32):
        return _by_units(buf, p, n, kind, out, o)
    return p, CHARSET_UNKNOWN


@function(_STEP(BUF, I64, I64, I64, TABLE16))
def character(buf, p, end, code, tables):  # type: ignore[no-untyped-def]
    """The character at ``p`` < ``end`` of the character set ``code``: (error, code point, length).

    Errors as of :func:`text`; bytes of the character set ``binary`` are no characters.
    """
    if code < 0 or code >= MAX_CODES or tables.size < MAX_CODES * ENTRY:
        return CHARSET_UNKNOWN, 0, 0
    kind = np.int64(tables[code * ENTRY])
    b = np.int64(buf[p])
    if kind == KIND_UTF8:
        if b < 128:
            return OK, b, 1
        n = utf8_length(buf, p, end)
        if n == 0:
            return TEXT_INVALID, 0, 0
        return OK, utf8_code_point(buf, p, n), n
    if kind == KIND_ASCII:
        return (OK, b, 1) if b < 128 else (TEXT_INVALID, 0, 0)
    if KIND_SINGLE <= kind <= KIND_GB18030:
        c = np.int64(tables[_offset(tables, code, 2) + b])
        n = np.int64(1)
        if c == 0 and b != 0:
            if kind == KIND_SINGLE:
                return TEXT_UNMAPPED, 0, 0
            error, c, n = _multi_byte(buf, p, end, kind, code, tables)
            if error != OK:
                return error, 0, 0
            if c == 0:
                return TEXT_UNMAPPED, 0, 0
        return OK, c, n
    if kind in (KIND_UCS2, KIND_UTF16, KIND_UTF16LE, KIND_UTF32):
        error, c, n = _wide(buf, p, end, kind)
        if error == OK and (c > 0x10FFFF or c & 0x7FFFF800 == 0xD800):
            return TEXT_INVALID, 0, 0
        return error, c, n
    return CHARSET_UNKNOWN, 0, 0
