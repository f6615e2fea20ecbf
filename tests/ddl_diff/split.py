"""SQL files as statements: ``;`` and DELIMITER as the command line clients read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_DELIMITER = re.compile(r"\s*delimiter[ \t]+(\S+)", re.IGNORECASE)
_LINE_COMMENT = re.compile(r"#|--(?=\s|$)")


def by_line(text: str) -> list[str]:
    """One statement a line; a ``;`` at its end is dropped, empty lines and comments are none."""
    lines = (line.strip() for line in text.splitlines())
    return [line.rstrip(";").rstrip() for line in lines if line and not _LINE_COMMENT.match(line)]


def statements(text: str, backslash: Callable[[], bool] = lambda: True) -> Iterator[str]:
    """Statements without their delimiters, one by one.

    ``backslash`` says whether a backslash escapes in strings: a statement may change it for those
    behind it.
    """
    for statement in _split(text, backslash):
        stripped = statement.strip()
        if stripped and not _only_comments(stripped):
            yield stripped


def _split(text: str, backslash: Callable[[], bool]) -> Iterator[str]:
    delimiter, start, i, fresh = ";", 0, 0, True
    while i < len(text):
        if fresh:
            match = _DELIMITER.match(text, i)
            if match:
                delimiter = match[1]
                start = i = match.end()
                continue
        fresh = False
        ch = text[i]
        if text.startswith(delimiter, i):
            yield text[start:i]
            start = i = i + len(delimiter)
            fresh = True
        elif ch in "'\"`":
            i = _quoted(text, i, backslash())
        elif _LINE_COMMENT.match(text, i):
            end = text.find("\n", i)
            i = len(text) if end < 0 else end
            # A comment on lines of its own leaves the next line fresh for DELIMITER.
            fresh = not text[start:i].strip() or _only_comments(text[start:i])
            start = i if fresh else start
        elif text.startswith("/*", i):
            end = text.find("*/", i + 2)
            i = len(text) if end < 0 else end + 2
        else:
            i += 1
    yield text[start:]


def _quoted(text: str, i: int, backslash: bool) -> int:
    quote = text[i]
    i += 1
    while i < len(text):
        if backslash and text[i] == "\\" and quote != "`":
            i += 2
        elif text[i] == quote:
            return i + 1
        else:
            i += 1
    return i


def _only_comments(statement: str) -> bool:
    rest = re.sub(r"/\*(?!M?!).*?\*/", "", statement, flags=re.DOTALL)
    rest = re.sub(r"(#|--(\s|$)).*?(\n|$)", "", rest)
    return not rest.strip()
