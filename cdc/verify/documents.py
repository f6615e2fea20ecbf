"""JSON documents in one form: MySQL keeps a binary one, MariaDB the text as it was given."""

from __future__ import annotations

import json
from typing import Any

_UNSIGNED_END = 1 << 64
_SIGNED_BEGIN = -(1 << 63)


def canonical(text: str | None) -> str | None:
    """The document with sorted members and plain numbers; what is no JSON stays as it is."""
    if text is None:
        return None
    try:
        value = json.loads(text, parse_int=_integer)
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text


def _integer(digits: str) -> Any:
    # MySQL keeps integers of 64 bits; a greater one is a double.
    value = int(digits)
    return value if _SIGNED_BEGIN <= value < _UNSIGNED_END else float(digits)
