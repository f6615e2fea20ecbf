"""Exact decimals as columns of limbs.

A decimal is int64[limbs, rows], nine digits a limb, the least first: all limbs but the last are in
0..10**9 - 1 and the last one has the sign, as a floor does. ``points`` limbs lie behind the point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from filter.expr.values import Ints

BASE = 10**9
DIGITS = 9


def limbs_of(digits: int, scale: int) -> tuple[int, int]:
    """How many limbs a number of so many digits takes, and how many of them are fraction."""
    points = -(-scale // DIGITS)
    return max(1, -(-(digits - scale) // DIGITS)) + points, points


def settle(limbs: Ints) -> Ints:
    """Carry in place, so that every limb but the last is in range."""
    for i in range(len(limbs) - 1):
        carry = limbs[i] // BASE
        limbs[i] -= carry * BASE
        limbs[i + 1] += carry
    return limbs


def literal(text: str, digits: int, scale: int) -> Ints:
    """A plain decimal text as one column of ``limbs_of(digits, scale)``."""
    count, points = limbs_of(digits, scale)
    negative = text.startswith("-")
    whole, _, fraction = text.lstrip("+-").partition(".")
    number = int((whole or "0") + fraction.ljust(points * DIGITS, "0"))
    number = -number if negative else number
    out = np.zeros((count, 1), np.int64)
    for i in range(count - 1):
        number, out[i, 0] = divmod(number, BASE)
    out[count - 1, 0] = number
    return out


def from_ints(values: npt.NDArray[Any]) -> Ints:
    """Integers as three limbs without fraction."""
    out = np.empty((3, len(values)), np.int64)
    if values.dtype == np.uint64:
        base = np.uint64(BASE)
        out[0] = (values % base).astype(np.int64)
        values = values // base
        out[1] = (values % base).astype(np.int64)
        out[2] = (values // base).astype(np.int64)
        return out
    values = values.astype(np.int64)
    for i in range(2):
        rest = values // BASE
        out[i] = values - rest * BASE
        values = rest
    out[2] = values
    return out


def to_ints(limbs: Ints) -> Ints:
    """Whole numbers that fit into 64 bits, from their limbs."""
    out: Ints = limbs[-1].copy()
    for limb in limbs[-2::-1]:
        out *= BASE
        out += limb
    return out


def widen(limbs: Ints, points: int, count: int, new_points: int) -> Ints:
    """The same numbers with more limbs on either side; a copy."""
    low = new_points - points
    out = np.zeros((count, limbs.shape[1]), np.int64)
    out[low : low + len(limbs)] = limbs
    return settle(out)


def aligned(a: Ints, pa: int, b: Ints, pb: int) -> tuple[Ints, Ints]:
    """Both with the same limbs, one of them spare at the top."""
    points = max(pa, pb)
    count = max(len(a) - pa, len(b) - pb) + points + 1
    return widen(a, pa, count, points), widen(b, pb, count, points)


def compare(a: Ints, pa: int, b: Ints, pb: int) -> npt.NDArray[np.int8]:
    """-1, 0 or 1 for each row; int8."""
    a, b = aligned(a, pa, b, pb)
    result: Ints = np.sign(a[-1] - b[-1])
    for i in range(len(a) - 2, -1, -1):
        result = np.where(result == 0, np.sign(a[i] - b[i]), result)
    return result.astype(np.int8)


def sign(a: Ints) -> Ints:
    """-1, 0 or 1 for each row."""
    found: Ints = np.where(a[-1] < 0, -1, (a != 0).any(axis=0).astype(np.int64))
    return found


def negate(a: Ints) -> Ints:
    """-a."""
    return settle(-a)


def add(a: Ints, pa: int, b: Ints, pb: int) -> Ints:
    """a + b, ``max(pa, pb)`` limbs of fraction."""
    a, b = aligned(a, pa, b, pb)
    return settle(a + b)


def multiply(a: Ints, b: Ints) -> Ints:
    """a * b; its fraction has as many limbs as both have together."""
    negative = (a[-1] < 0) != (b[-1] < 0)
    a = np.where(a[-1] < 0, negate(a), a)
    b = np.where(b[-1] < 0, negate(b), b)
    out = np.zeros((len(a) + len(b), max(a.shape[1], b.shape[1])), np.int64)
    for i in range(len(a)):
        out[i : i + len(b)] += a[i] * b
        settle(out)
    return np.where(negative, negate(out), out)


def to_real(a: Ints, points: int, scale: int) -> npt.NDArray[np.float64]:
    """The nearest double of each; no digit lies behind ``scale``."""
    negative = a[-1] < 0
    magnitude = np.where(negative, negate(a), a)
    top = np.zeros(a.shape[1], np.int64)
    exact = np.full(a.shape[1], scale <= 22)
    for i in range(len(a) - 1, -1, -1):
        digits = DIGITS if i else DIGITS - (points * DIGITS - scale)
        exact &= top < (1 << 53) // 10**digits
        top = np.where(exact, top * 10**digits + magnitude[i] // 10 ** (DIGITS - digits), top)
    # Both are exact doubles, so one division rounds once.
    result = top / 10.0 ** min(scale, 22)
    for row in np.flatnonzero(~exact):
        # Rare and long: more than fifteen digits.
        number: int = 0
        for limb in magnitude[::-1, row].tolist():
            number = number * BASE + int(limb)
        result[row] = float(f"{number}e-{DIGITS * points}")
    return np.where(negative, -result, result)


def to_text(a: Ints, points: int, scale: int) -> list[str]:
    """Each as the server prints it; for constants and errors."""
    found = []
    for column in a.T.tolist():
        number = 0
        for limb in reversed(column):
            number = number * BASE + int(limb)
        digits = str(abs(number)).rjust(points * DIGITS + 1, "0")
        whole, fraction = (
            digits[: len(digits) - points * DIGITS],
            digits[len(digits) - points * 9 :],
        )
        text = whole + ("." + fraction[:scale] if scale else "")
        found.append("-" + text if number < 0 else text)
    return found
