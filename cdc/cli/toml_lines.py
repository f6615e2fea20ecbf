"""On which line of a TOML file each value stands; Python's own reader does not say.

The text is one that ``tomllib`` has read, so only well-formed TOML comes here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Path = tuple[str | int, ...]

_KEY = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^,\]}#\n]+")


def value_lines(text: str) -> dict[str, int]:
    """Line numbers from 1 by place: ``filter.rules[2]``, ``sink.dispatchers[0].partition``.

    Keys are in kebab-case, as errors name them. Tables and arrays have lines too.
    """
    found: dict[str, int] = {}
    for path, line in _Scan(text.replace("\r\n", "\n")).lines():
        found.setdefault(place(path), line)
    return found


def place(path: Path) -> str:
    """A path as errors write it."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += f".{part.replace('_', '-')}" if out else part.replace("_", "-")
    return out


def line_of(lines: dict[str, int], where: str) -> int | None:
    """The line of a place, or of the nearest part around it that the file has."""
    while where and where not in lines:
        where = (
            where[: max(where.rfind("."), where.rfind("["))] if re.search(r"[.\[]", where) else ""
        )
    return lines.get(where)


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._arrays: dict[Path, int] = {}

    def lines(self) -> Iterator[tuple[Path, int]]:
        table: Path = ()
        while self._blank():
            line = self._line()
            if self.text[self.at] == "[":
                table = self._header()
                yield table, line
            else:
                yield from self._pair(table)

    def _line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def _blank(self) -> bool:
        """Pass over blanks and comments; whether anything is left."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in " \t\n":
                self.at += 1
            else:
                return True
        return False

    def _header(self) -> Path:
        double = self.text.startswith("[[", self.at)
        self.at += 2 if double else 1
        path = self._resolved(self._key())
        self.at += 2 if double else 1
        if double:
            self._arrays[path] = self._arrays.get(path, -1) + 1
            path = (*path, self._arrays[path])
        return path

    def _resolved(self, keys: Path) -> Path:
        """With the number of the last element wherever the header goes through an array."""
        path: Path = ()
        for i, key in enumerate(keys):
            path = (*path, key)
            if path in self._arrays and i < len(keys) - 1:
                path = (*path, self._arrays[path])
        return path

    def _key(self) -> Path:
        keys: list[str | int] = []
        while True:
            found = _KEY.match(self.text, self.at)
            if found is None:
                raise ValueError(f"no key at character {self.at}")
            keys.append(next(g for g in found.groups() if g is not None))
            self.at = found.end()
            if not self.text.startswith(".", self.at):
                return tuple(keys)
            self.at += 1

    def _pair(self, table: Path) -> Iterator[tuple[Path, int]]:
        line = self._line()
        path = (*table, *self._key())
        self.at += 1  # the equals sign
        yield path, line
        yield from self._value(path)

    def _value(self, path: Path) -> Iterator[tuple[Path, int]]:
        self._blank()
        opening = self.text[self.at]
        if opening == "[":
            yield from self._members(path, "]")
        elif opening == "{":
            yield from self._members(path, "}")
        elif opening in "\"'":
            found = _STRING.match(self.text, self.at)
            self.at = len(self.text) if found is None else found.end()
        else:
            found = _PLAIN.match(self.text, self.at)
            self.at = len(self.text) if found is None else found.end()

    def _members(self, path: Path, closing: str) -> Iterator[tuple[Path, int]]:
        self.at += 1
        number = 0
        while self._blank() and self.text[self.at] != closing:
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "}":
                yield from self._pair(path)
            else:
                yield (*path, number), self._line()
                yield from self._value((*path, number))
                number += 1
        self.at += 1
