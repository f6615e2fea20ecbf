"""Calls of value kernels from Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


class Refused(Exception):
    """A kernel returned (position, code)."""


def text(kernel: Any, data: bytes, *parameters: Any) -> str:
    """The value that ``kernel(buf, p, *parameters, out, o)`` writes, read back by a JSON parser."""
    before, after = b"\xff" * 3, b"\xff" * 3
    buf = np.frombuffer(before + data + after, dtype=np.uint8)
    out = np.zeros(12 * len(data) + 512, dtype=np.uint8)
    result = kernel(buf, len(before), *parameters, out, 5)
    o, error = result if isinstance(result, tuple) else (result, 0)
    if error:
        raise Refused(o - len(before), error)
    value: str = json.loads(b'"' + out[5:o].tobytes() + b'"')
    return value
