"""JSON of constants, and of messages that are built in Python."""

from __future__ import annotations

import json


def json_text(value: object) -> str:
    """Compact JSON, with characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
