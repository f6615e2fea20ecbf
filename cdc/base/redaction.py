"""User data in texts for people: where it begins and ends, and how much of it logs show.

Whoever writes values of rows or statements of users into an error marks them with
:func:`user_data`; the marks stay in the error's texts, however often it is wrapped, and are
resolved where a text goes out. What the modes show is what TiDB's logs show.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from enum import StrEnum

# Noncharacters (Unicode, section 23.7): they mean nothing in any text that is exchanged.
_BEGIN, _END = "\ufdd0", "\ufdd1"
_SHOWN_BEGIN, _SHOWN_END = "‹", "›"
# A text that was cut may have lost the end of its data.
_DATA = re.compile(f"{_BEGIN}([^{_END}]*)(?:{_END}|$)")
_UNMARKED = str.maketrans("", "", _BEGIN + _END)


class RedactMode(StrEnum):
    """What logs show of user data: all of it, all of it between ``‹›``, or ``?`` in its place."""

    OFF = "off"
    MARKER = "marker"
    ON = "on"

    @property
    def strictness(self) -> int:
        """0 for OFF to 2 for ON: a running server only becomes stricter."""
        return list(RedactMode).index(self)


texts_are_marked: ContextVar[bool] = ContextVar("tidegate_texts_are_marked", default=False)
"""Set while a log line is formatted: then the texts of errors have their marks."""


def user_data(text: str) -> str:
    """The text, marked as one piece of user data."""
    return f"{_BEGIN}{plain(text)}{_END}"


def plain(text: str) -> str:
    """The text without marks."""
    return text.translate(_UNMARKED)


def redacted(text: str, mode: RedactMode) -> str:
    """The text with its user data as ``mode`` says; a ``‹`` or ``›`` within it is doubled."""
    if _BEGIN in text and mode is not RedactMode.OFF:
        text = _DATA.sub("?" if mode is RedactMode.ON else _between, text)
    return plain(text)


def _between(found: re.Match[str]) -> str:
    data = found[1].replace(_SHOWN_BEGIN, _SHOWN_BEGIN * 2).replace(_SHOWN_END, _SHOWN_END * 2)
    return f"{_SHOWN_BEGIN}{data}{_SHOWN_END}"
