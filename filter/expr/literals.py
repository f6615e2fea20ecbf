"""Literals as they are written: numbers, x'…', b'…', DATE '…'."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cdc.schema.tokens import Item, Kind
from filter.expr.tree import Op

_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_HEX = re.compile(r"0x([0-9a-fA-F]+)|[xX]'([0-9a-fA-F]*)'")
_BIT = re.compile(r"0b([01]+)|[bB]'([01]*)'")
_DATED = {"DATE": Op.DATE, "TIME": Op.TIME, "TIMESTAMP": Op.TIMESTAMP}


def adjacent_number(text: str, items: Sequence[Item], at: int) -> tuple[str, int]:
    """The number whose first item is ``items[at]``, and how many items it takes.

    ``1e-3``, ``.5`` and ``1.`` may be several items; ``("", 0)`` if there is none, or one that runs
    into a word (``1abc``).
    """
    start = items[at].start
    found = _NUMBER.match(text, start)
    if found is None:
        return "", 0
    end = found.end()
    if end < len(text) and (text[end].isalnum() or text[end] in "_$."):
        return "", 0
    taken = 0
    while at + taken < len(items) and items[at + taken].start < end:
        taken += 1
    return found.group(), taken


def _hex_or_bit(text: str) -> tuple[Op, bytes] | None:
    found = _HEX.fullmatch(text)
    if found is not None:
        digits = found.group(1) if found.group(1) is not None else found.group(2)
        if found.group(1) is None and len(digits) % 2:
            return None
        op = Op.HEX if found.group(1) is not None else Op.HEX_STRING
        return op, bytes.fromhex("0" * (len(digits) % 2) + digits)
    found = _BIT.fullmatch(text)
    if found is not None:
        digits = found.group(1) or found.group(2) or ""
        size = (len(digits) + 7) // 8
        return Op.BIT, int(digits or "0", 2).to_bytes(size, "big")
    return None


def prefixed_literal(word: str, following: Item | None) -> tuple[Op, bytes | str, int] | None:
    """A literal that begins with this word: what, its value, and how many items it takes."""
    found = _hex_or_bit(word)
    if found is not None:
        return *found, 1
    if following is None or following.kind is not Kind.STRING:
        return None
    op = _DATED.get(word.upper())
    if op is not None:
        return op, following.text, 2
    if word in ("x", "X", "b", "B"):
        joined = _hex_or_bit(f"{word}'{following.text}'")
        if joined is not None:
            return *joined, 2
    return None
