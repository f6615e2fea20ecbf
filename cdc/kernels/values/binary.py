"""Bytes as text: each byte becomes the ISO-8859-1 code point of the same number, escaped."""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import function
from cdc.kernels.values.escape import copy_plain, escape_ascii
from cdc.kernels.values.signature import BUF, I64, OUT


@function(I64(BUF, I64, I64, I64, OUT, I64))
def binary(buf, p, n, width, out, o):  # type: ignore[no-untyped-def]
    """BINARY(width), VARBINARY and BLOB (width 0), geometry: ``n`` bytes.

    Row images hold BINARY without its trailing 0x00; they are added up to ``width`` bytes (6
    characters each, so ``out`` needs ``6 * max(n, width) + 64``).
    """
    end = p + n
    while p < end:
        if p + 8 <= end:
            p, o = copy_plain(buf, p, end, out, o)
            if p >= end:
                break
        b = np.int64(buf[p])
        if b < 128:
            o = escape_ascii(b, out, o)
        else:
            out[o] = np.uint8(0xC0 | b >> 6)
            out[o + 1] = np.uint8(0x80 | b & 63)
            o += 2
        p += 1
    for _ in range(width - n):
        o = escape_ascii(0, out, o)
    return o
