"""Decimal text of a DOUBLE as the servers print it, back to the double nearest to it.

D. Lemire, "Number parsing at a gigabyte per second" (2021); that up to 19 digits need no other
way beside it is shown in N. Mushtak and D. Lemire, "Fast number parsing without fallback" (2023).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from cdc.kernels.compile import rare
from cdc.kernels.memory import load8
from cdc.kernels.values.words import multiply_wide

_MIN: Final = -342
_MAX: Final = 308
_DIGITS: Final = 19


def _power(q: int) -> int:
    # The highest 128 bits of 5**q, rounded down; up where halfway cases may be met (-27 and above).
    five = 5 ** abs(q)
    if q >= 0:
        return five << max(0, 128 - five.bit_length()) >> max(0, five.bit_length() - 128)
    bits = (five - 1).bit_length()
    return (1 << bits + 127) // five + (q >= -27)


def _powers() -> npt.NDArray[np.uint64]:
    found = [_power(q) for q in range(_MIN, _MAX + 1)]
    return np.array([[v >> 64, v & (1 << 64) - 1] for v in found], np.uint64)


_POWERS = _powers()


@intrinsic
def _leading_zeros(typing_context: Any, a: Any) -> Any:
    """Number of zero bits above the highest one of a uint64 that is not 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@rare
def nearest(w, q):  # type: ignore[no-untyped-def]
    """Bits of the double nearest to ``w * 10**q``, without sign; -1 if it is too large for one."""
    if w == np.uint64(0) or q < _MIN:
        return np.int64(0)
    if q > _MAX:
        return np.int64(-1)
    zeros = _leading_zeros(w)
    w <<= np.uint64(zeros)
    high, low = multiply_wide(w, _POWERS[q - _MIN, 0])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = multiply_wide(w, _POWERS[q - _MIN, 1])
        low += more
        if more > low:
            high += np.uint64(1)
    upper = np.int64(high >> np.uint64(63))
    m = high >> np.uint64(upper + 9)
    exponent = ((217706 * q) >> 16) + 63 + upper - zeros + 1023
    one = np.uint64(1)
    if exponent <= 0:
        if 1 - exponent >= 64:
            return np.int64(0)
        m >>= np.uint64(1 - exponent)
        # A carry out of the fraction makes it the smallest normal number by itself.
        return np.int64((m + (m & one)) >> one)
    if (
        low <= one
        and -4 <= q <= 23
        and m & np.uint64(3) == one
        and m << np.uint64(upper + 9) == high
    ):
        # Halfway between two doubles: to the even one.
        m &= ~one
    m = (m + (m & one)) >> one
    bits = (np.int64(m) - (np.int64(1) << 52)) + (exponent << 52)
    if bits >= np.int64(0x7FF) << 52:
        return np.int64(-1)
    return bits


@rare
def text_double(buf, p, end):  # type: ignore[no-untyped-def]
    """``(bits of the double as int64, ok)`` of ``[-]digits[.digits][e[-]digits]``.

    Not ok: other text, more than 19 digits that count, or a number that is no double.
    """
    zero = np.int64(0)
    negative = p < end and load8(buf, p) == 45
    if negative:
        p += 1
    w = np.uint64(0)
    counted = 0
    digits = 0
    scale = zero
    point = False
    while p < end:
        c = load8(buf, p)
        if c == 46 and not point:
            point = True
        elif 48 <= c <= 57:
            digits += 1
            if counted > 0 or c != 48:
                if counted < _DIGITS:
                    w = w * np.uint64(10) + np.uint64(c - 48)
                    counted += 1
                    if point:
                        scale -= 1
                elif c != 48:
                    return zero, False
                elif not point:
                    scale += 1
            elif point:
                scale -= 1
        else:
            break
        p += 1
    if digits == 0:
        return zero, False
    if p < end:
        c = load8(buf, p)
        if c != 101 and c != 69:
            return zero, False
        p += 1
        down = p < end and load8(buf, p) == 45
        if down or (p < end and load8(buf, p) == 43):
            p += 1
        if p >= end or end - p > 4:
            return zero, False
        e = zero
        while p < end:
            c = load8(buf, p)
            if c < 48 or c > 57:
                return zero, False
            e = e * 10 + c - 48
            p += 1
        scale += -e if down else e
    bits = nearest(w, scale)
    if bits < 0:
        return zero, False
    return (bits | np.int64(-1) << 63) if negative else bits, True
