"""MariaDB's UUID, INET4 and INET6 as the server prints them.

Row images hold them as BINARY(16 or 4): bytes in the order of the text (not in that of the
storage), trailing 0x00 left out. So ``n`` may be less than the type's length; more is LENGTH.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import function
from cdc.kernels.values.errors import LENGTH, OK
from cdc.kernels.values.integers import unsigned
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_DASH = np.uint8(45)
_DOT = np.uint8(46)
_COLON = np.uint8(58)


@function(I64(BUF, I64, I64, I64))
def _byte(buf, p, n, i):  # type: ignore[no-untyped-def]
    return np.int64(buf[p + i]) if i < n else 0


@function(CHECKED(BUF, I64, I64, OUT, I64))
def uuid(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """UUID, ``n`` <= 16 bytes: ``8-4-4-4-12`` lower-case hex digits."""
    if n > 16:
        return p, LENGTH
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            out[o] = _DASH
            o += 1
        b = _byte(buf, p, n, i)
        out[o] = _HEX[b >> 4]
        out[o + 1] = _HEX[b & 15]
        o += 2
    return o, OK


@function(I64(BUF, I64, I64, I64, OUT, I64))
def _dotted(buf, p, n, first, out, o):  # type: ignore[no-untyped-def]
    for i in range(4):
        if i > 0:
            out[o] = _DOT
            o += 1
        o = unsigned(np.uint64(_byte(buf, p, n, first + i)), out, o)
    return o


@function(CHECKED(BUF, I64, I64, OUT, I64))
def inet4(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """INET4, ``n`` <= 4 bytes: dotted decimal."""
    if n > 4:
        return p, LENGTH
    return _dotted(buf, p, n, 0, out, o), OK


@function(I64(I64, OUT, I64))
def _group(v, out, o):  # type: ignore[no-untyped-def]
    for shift in (12, 8, 4, 0):
        if v >> shift != 0 or shift == 0:
            out[o] = _HEX[v >> shift & 15]
            o += 1
    return o


@function(CHECKED(BUF, I64, I64, OUT, I64))
def inet6(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """INET6, ``n`` <= 16 bytes: the first longest run of zero groups, even a single one, as ``::``.

    IPv4-compatible and IPv4-mapped addresses end in dotted decimal.
    """
    if n > 16:
        return p, LENGTH
    gap_start, gap, run = -1, 0, 0
    for g in range(8):
        if _byte(buf, p, n, 2 * g) == 0 and _byte(buf, p, n, 2 * g + 1) == 0:
            run += 1
            if run > gap:
                gap, gap_start = run, g - run + 1
        else:
            run = 0
    mapped = _byte(buf, p, n, 10) == 255 and _byte(buf, p, n, 11) == 255
    dotted = gap_start == 0 and (gap == 6 or (gap == 5 and mapped))
    g = 0
    while g < 8:
        if g == gap_start:
            out[o] = _COLON
            o += 1
            g += gap
            if g == 8:
                out[o] = _COLON
                return o + 1, OK
            continue
        if g > 0:
            out[o] = _COLON
            o += 1
        if dotted and g == 6:
            return _dotted(buf, p, n, 12, out, o), OK
        o = _group(_byte(buf, p, n, 2 * g) << 8 | _byte(buf, p, n, 2 * g + 1), out, o)
        g += 1
    return o, OK
