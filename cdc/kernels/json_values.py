"""Values that several formats of JSON write the same: base64, floats, members of a type."""

from __future__ import annotations

import numpy as np

from cdc.kernels import base64
from cdc.kernels import json_layout as J  # noqa: N812
from cdc.kernels.cell import little_endian
from cdc.kernels.compile import rare
from cdc.kernels.memory import copy, copy_padded, load32, load64, store8
from cdc.kernels.values.errors import LENGTH, NOT_FINITE
from cdc.kernels.values.floats import float32_digits
from cdc.kernels.values.json_text import double, scientific

_QUOTE = 34
_SCRATCH = 48


@rare
def put_base64(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """``n`` bytes as base64 in quotes; 4 * ceil(n / 3) + 2 bytes."""
    store8(out, o, _QUOTE)
    o = base64.encode(buf, p, p + n, out, o + 1)
    store8(out, o, _QUOTE)
    return o + 1


@rare
def put_padded(buf, p, n, width, out, o):  # type: ignore[no-untyped-def]
    """The same of a value of BINARY(width), with the zeros that the server does not store."""
    if n >= width:
        return put_base64(buf, p, n, out, o)
    at = o + _SCRATCH + 2 * width
    copy(buf, p, out, at, n)
    for i in range(n, width):
        store8(out, at + i, 0)
    return put_base64(out, at, width, out, o)


@rare
def put_float(buf, p, out, o):  # type: ignore[no-untyped-def]
    """A FLOAT as a number that has a point: ``(new o, 0)`` or ``(offset, code)``."""
    bits = np.uint64(load32(buf, p))
    fraction = bits & np.uint64((1 << 23) - 1)
    exponent = np.int64(bits >> np.uint64(23) & np.uint64(255))
    if exponent == 255:
        return p, NOT_FINITE
    if bits >> np.uint64(31) != np.uint64(0):
        store8(out, o, 45)
        o += 1
    whole = True
    if exponent == 0 and fraction == np.uint64(0):
        store8(out, o, 48)
        o += 1
    else:
        d, k = float32_digits(fraction, exponent)
        o, whole = scientific(d, k, out, o)
    if whole:
        store8(out, o, 46)
        store8(out, o + 1, 48)
        o += 2
    return o, 0


@rare
def put_double(buf, p, out, o):  # type: ignore[no-untyped-def]
    """The same of a DOUBLE."""
    bits = np.uint64(load64(buf, p))
    if bits >> np.uint64(52) & np.uint64(2047) == np.uint64(2047):
        return p, NOT_FINITE
    return double(bits, out, o), 0


@rare
def put_enum(buf, p, n, first, count, members, blob, out, o):  # type: ignore[no-untyped-def]
    """The text of an ENUM in quotes; its ``count`` members begin at row ``first`` of ``members``.

    Returns ``(new o, 0)`` or ``(offset, code)``.
    """
    if n > 2:
        return p, LENGTH
    number = np.int64(little_endian(buf, p, n))
    if number > count:
        return p, LENGTH
    store8(out, o, _QUOTE)
    o += 1
    # 0 is the empty text that stands for a value which was none.
    if number > 0:
        m = first + number - 1
        o = copy_padded(blob, members[m, J.M_TEXT], out, o, members[m, J.M_LENGTH])
    store8(out, o, _QUOTE)
    return o + 1, 0
