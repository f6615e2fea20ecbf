"""JSON paths that both server families read in the same way.

MySQL manual, "JSON Path Syntax"; MariaDB knowledge base, "JSONPath Expressions".
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from cdc.kernels.expr_json import CELL, CELL_FROM_END, KEY
from filter.expr.convert import refused
from filter.expr.values import Buffer

MAX_LEGS = 32
_NAME = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)")
# Without escapes: the families undo them at different times.
_QUOTED = re.compile(r'\."([^"\\\x00-\x1f]*)"')
_CELL = re.compile(r"\[(0|[1-9][0-9]{0,8})\]")
_LAST = re.compile(r"\[last(?:-(0|[1-9][0-9]{0,8}))?\]")
_HINT = 'write $, .name, ."name" and [0], without spaces: \'$.a[0]."b c"\''


class Path(NamedTuple):
    """``legs`` is int64[legs, 3] as ``cdc.kernels.expr_json`` takes it, with keys in ``keys``."""

    legs: Any
    keys: Buffer


def parse_path(text: object, mariadb: bool, at: int) -> Path:
    """The legs of a literal path; ``ExpressionNotSupported`` if it is none, or not evaluated."""
    if not isinstance(text, str):
        raise refused("a JSON path that is no literal", at, "write the path")
    if not text.startswith("$"):
        raise refused(f"{text!r} as a JSON path", at, _HINT)
    legs: list[tuple[int, int, int]] = []
    keys = b""
    i = 1
    while i < len(text):
        if found := _NAME.match(text, i) or _QUOTED.match(text, i):
            key = _encoded(found.group(1), text, at)
            legs.append((KEY, len(keys), len(key)))
            keys += key
        elif found := _CELL.match(text, i):
            legs.append((CELL, int(found.group(1)), 0))
        elif (found := _LAST.match(text, i)) and not mariadb:
            legs.append((CELL_FROM_END, int(found.group(1) or 0), 0))
        else:
            raise refused(f"{text!r} as a JSON path", at, _HINT)
        i = found.end()
    if len(legs) > MAX_LEGS:
        raise refused(f"a JSON path of more than {MAX_LEGS} legs", at, "write a shorter one")
    return Path(np.array(legs, np.int64).reshape(-1, 3), np.frombuffer(keys + bytes(8), np.uint8))


def _encoded(key: str, text: str, at: int) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError:
        raise refused(f"{text!r} as a JSON path", at, _HINT) from None
