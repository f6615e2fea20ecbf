"""Sets of characters as sorted ranges of code points, and the named ones of each engine."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from cdc.kernels.charsets import ENTRY, charset_code, tables
from cdc.kernels.collations.folds import folds

TOP = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]
"""(first, last) pairs in order, which neither overlap nor touch."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Whose regular expressions these are, and over which characters.

    ``icu`` is MySQL's library, else it is MariaDB's PCRE2. ``charset`` is that of the text;
    "binary" is bytes.
    """

    icu: bool
    charset: str
    ignore_case: bool

    @property
    def narrow(self) -> bool:
        """Whether its characters are so few that all versions of Unicode agree about them."""
        return self.charset in ("ascii", "latin1", "binary")


class Unsettled(Exception):
    """Versions of Unicode differ about the case of this character."""

    def __init__(self, point: int) -> None:
        super().__init__(point)
        self.point = point


def union(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """All of these, whatever their order."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def complement(ranges: Ranges) -> Ranges:
    """All other characters."""
    found, low = [], 0
    for first, last in ranges:
        if low < first:
            found.append((low, first - 1))
        low = last + 1
    if low <= TOP:
        found.append((low, TOP))
    return tuple(found)


@lru_cache(maxsize=1)
def _cased() -> list[int]:
    known = folds()
    return sorted({*known.first, *known.unsettled})


def in_any_case(ranges: Ranges) -> Ranges:
    """With the other cases of each of them; ``Unsettled`` if one has none that is certain."""
    known, cased = folds(), _cased()
    more = list(ranges)
    for low, high in ranges:
        for point in cased[bisect_left(cased, low) : bisect_left(cased, high + 1)]:
            if point in known.unsettled:
                raise Unsettled(point)
            more += [(p, p) for p in known.members[known.first[point]]]
    return union(more)


def folded(points: list[int]) -> list[int]:
    """Characters folded in full: ß is ss; ``Unsettled`` if one of them is."""
    known, found = folds(), []
    for point in points:
        if point in known.unsettled:
            raise Unsettled(point)
        parts = known.full.get(point, (point,))
        found += [known.first.get(p, p) for p in parts]
    return found


@lru_cache(maxsize=1)
def growing() -> dict[tuple[int, ...], Ranges]:
    """The characters that become each sequence when they are folded in full."""
    known = folds()
    found: dict[tuple[int, ...], Ranges] = {}
    for point, parts in known.full.items():
        key = tuple(known.first.get(p, p) for p in parts)
        found[key] = union([*found.get(key, ()), (point, point)])
    return found


@lru_cache(maxsize=2)
def byte_points(charset: str) -> tuple[int, ...]:
    """The code point of each byte of a single-byte character set, or of bytes themselves."""
    if charset != "latin1":
        return tuple(range(256))
    code = charset_code(charset)
    assert code is not None
    at = int(tables()[code * ENTRY + 2]) | int(tables()[code * ENTRY + 3]) << 16
    return tuple(tables()[at : at + 256].tolist())


_ASCII_SPACE = ((9, 13), (32, 32))
_BLANKS = ((9, 9), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F),
           (0x205F, 0x205F), (0x3000, 0x3000))  # fmt: skip
_CONTROLS = ((0, 31), (127, 159))
_LINES = ((10, 13), (0x85, 0x85), (0x2028, 0x2029))


def line_ends(dialect: Dialect) -> Ranges:
    """What a dot does not match."""
    return _LINES if dialect.icu else ((10, 10),)


def named(name: str, dialect: Dialect) -> Ranges | None:
    """``[:name:]``, also ``word`` for ``\\w``; None where versions of Unicode differ about it.

    Measured on every code point of MySQL 8.0 and 9.7 and MariaDB 10.11, 11.4 and 11.8.
    """
    if dialect.charset == "binary":
        return _of_ascii(name)
    blank = _BLANKS if dialect.icu else union([*_BLANKS, (0x180E, 0x180E)])
    if name == "blank":
        return blank
    if name == "space":
        return union([*blank, *_LINES])
    if name == "cntrl":
        return _CONTROLS
    if not dialect.narrow or (name in ("upper", "lower") and dialect.ignore_case):
        return None
    return _of_latin1(name, dialect.icu)


def _of_ascii(name: str) -> Ranges | None:
    """As the C locale has it, which is PCRE2's for bytes."""
    if name in ("space", "blank"):
        return _ASCII_SPACE if name == "space" else ((9, 9), (32, 32))
    if name == "cntrl":
        return ((0, 31), (127, 127))
    found = _of_latin1(name, False)
    return found and tuple((low, high) for low, high in found if high < 128)


@lru_cache(maxsize=32)
def _of_latin1(name: str, icu: bool) -> Ranges | None:
    """By general category, for the characters of latin1."""
    digits = {p for p in range(128) if chr(p).isdigit()}
    if name == "digit":
        return _ranges(digits)
    if name == "xdigit":
        return _ranges(digits | {*b"abcdefABCDEF"})
    if name == "upper":
        return _having("Lu")
    if name == "lower":
        # ICU's is the property Lowercase, which ª and º have as well.
        return union([*_having("Ll"), *(((0xAA, 0xAA), (0xBA, 0xBA)) if icu else ())])
    if name == "punct":
        signs = () if icu else tuple((p, p) for p in b"$+<=>^`|~")
        return union([*_having("P"), *signs])
    # ½ and ² are numbers to PCRE2, and no letters to ICU.
    numbers = _ranges(digits) if icu else _having("N")
    parts = {"alpha": _having("L"), "alnum": union([*_having("L"), *numbers])}
    parts["word"] = union([*parts["alnum"], (95, 95)])
    return parts.get(name)


def _ranges(points: Iterable[int]) -> Ranges:
    return union((p, p) for p in points)


def _having(category: str) -> Ranges:
    known = byte_points("latin1")
    return _ranges(p for p in known if unicodedata.category(chr(p)).startswith(category))
