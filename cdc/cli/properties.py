"""Java's ``.properties``: https://docs.oracle.com/javase/8/docs/api/java/util/Properties.html."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cdc.base.errors import InvalidError

_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# A key, and the sign behind it that no backslash stands before.
_PAIR = re.compile(r"((?:\\.|[^\\=:])*?)\s*[=:]\s*(.*)\Z", re.DOTALL)
_GOES_ON = re.compile(r"(?:^|[^\\])(?:\\\\)*\\\Z")

# The error that says of a file what is wrong with it.
Invalid = Callable[[Path, str], InvalidError]


def read_text(path: Path, invalid: Invalid) -> str:
    """What a file holds; raises what ``invalid`` makes."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise invalid(path, f"cannot be read: {type(e).__name__}") from None


def read_properties(path: Path, invalid: Invalid) -> dict[str, str]:
    """The properties that a file holds; raises what ``invalid`` makes."""
    read = properties(read_text(path, invalid))
    if read is None:
        raise invalid(path, "has a line that is not key=value")
    return read


def properties(text: str) -> dict[str, str] | None:
    """Values by key; None if a line is neither one of them, nor empty or a comment."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        whole = line.strip()
        if not whole or whole[0] in "#!":
            continue
        while _GOES_ON.search(whole):
            whole = whole[:-1] + next(lines, "").strip()
        pair = _PAIR.match(whole)
        if pair is None:
            return None
        key, value = (_ESCAPED.sub(_character, part) for part in pair.groups())
        found[key] = value
    return found


def _character(escaped: re.Match[str]) -> str:
    text = escaped[1]
    return chr(int(text[1:], 16)) if len(text) > 1 else _LETTERS.get(text, text)
