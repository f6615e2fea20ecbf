"""JSON escapes of the value kernels undone: they escape ASCII characters only."""

from __future__ import annotations

from cdc.kernels.compile import rare
from cdc.kernels.memory import load8, store8

_BACKSLASH = 92


@rare
def _hex4(text, p):  # type: ignore[no-untyped-def]
    v = 0
    for i in range(4):
        digit = load8(text, p + i)
        v = v << 4 | (digit - 48 if digit < 58 else (digit | 32) - 87)
    return v


@rare
def unescape(text, p, end, out, o):  # type: ignore[no-untyped-def]
    """Write the characters of ``text[p:end]`` at ``o``, and return where they end.

    ``out`` may be ``text`` itself, with ``o`` at or below ``p``.
    """
    while p < end:
        b = load8(text, p)
        p += 1
        if b == _BACKSLASH:
            b = load8(text, p)
            p += 1
            if b == 110:
                b = 10
            elif b == 116:
                b = 9
            elif b == 114:
                b = 13
            elif b == 98:
                b = 8
            elif b == 102:
                b = 12
            elif b == 117:
                b = _hex4(text, p)
                p += 4
        store8(out, o, b)
        o += 1
    return o
