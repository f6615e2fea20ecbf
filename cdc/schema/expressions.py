"""Values and expressions inside column definitions, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cdc.schema.session import Session
from cdc.schema.tokens import Cursor, Item, Kind, quoted

_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
# Words that join two operands, so that an expression without parentheses goes on behind them.
_OPERATORS = ("DIV", "MOD", "AND", "OR", "XOR", "LIKE", "REGEXP", "RLIKE", "IN", "IS", "BETWEEN")
_PREFIXES = ("INTERVAL", "DATE", "TIME", "TIMESTAMP", "NOT", "CASE", "NEXT", "PREVIOUS")


@dataclass(frozen=True, slots=True)
class Default:
    """``text`` is None for NULL; ``bits`` is the value as ``b'101'`` if it is a bit literal.

    ``quoted`` says that it is a string, also where a number is wanted.
    """

    text: str | None
    expression: bool = False
    bits: str | None = None
    quoted: bool = False


def balanced(c: Cursor) -> str:
    """The text inside the parentheses that come next."""
    start = c.peek()
    if start is None or not start.is_punct("("):
        raise c.error("'(' was expected")
    c.skip_group()
    return c.text[start.end : c.items[c.at - 1].start].strip()


def read_now(c: Cursor) -> str:
    """CURRENT_TIMESTAMP or a synonym, as ``current_timestamp(n)``."""
    found = _now(c)
    if found is None:
        raise c.error("CURRENT_TIMESTAMP was expected")
    return found


def _now(c: Cursor) -> str | None:
    item = c.peek()
    if item is None or not item.is_word(*_NOW):
        return None
    c.next()
    digits = ""
    if c.punct("(") and not c.punct(")"):
        digits = c.next().text
        if not c.punct(")"):
            raise c.error("')' was expected")
    return f"current_timestamp({digits if digits != '0' else ''})"


def read_default(c: Cursor, session: Session) -> Default:
    """The value behind DEFAULT: a literal, CURRENT_TIMESTAMP, a call or an expression."""
    start = c.peek()
    if start is None:
        raise c.error("a value was expected")
    at = c.at
    value = _literal(c, session)
    if value is not None and not _goes_on(c):
        return value
    c.at = at
    now = _now(c)
    if now is not None and not _goes_on(c):
        return Default(now, expression=True)
    c.at = at
    while True:
        _operand(c)
        if not _goes_on(c):
            break
        c.next()
    text = c.text[start.start : c.items[c.at - 1].end]
    if session.mariadb and text.strip("() \n").upper() == "NULL":
        return Default(None)
    return Default(text, expression=True)


def _goes_on(c: Cursor) -> bool:
    item = c.peek()
    if item is None:
        return False
    if item.kind is Kind.PUNCT:
        return item.text not in (",", ")", "(", ";", "=")
    return item.is_word(*_OPERATORS)


def _operand(c: Cursor) -> None:
    while (item := c.peek()) is not None and (
        (item.kind is Kind.PUNCT and item.text in ("+", "-", "~", "!"))
        or (item.is_word(*_PREFIXES) and not _is_call(c))
    ):
        c.next()
        if item.is_word("CASE"):
            while not c.word("END"):
                c.next()
            return
        if item.is_word("NEXT", "PREVIOUS"):
            c.word("VALUE")
            c.word("FOR")
    item = c.peek()
    if item is None:
        raise c.error("an expression was expected")
    if item.is_punct("("):
        c.skip_group()
        return
    c.next()
    following = c.peek()
    if item.kind is Kind.WORD and following is not None and following.kind is Kind.STRING:
        c.next()
    if item.text.startswith("@"):
        # @@session.sql_mode, in one item or several
        while item.text.endswith("@"):
            item = c.next()
    while c.punct("."):
        c.name()
    following = c.peek()
    if item.kind in (Kind.WORD, Kind.NAME) and following is not None and following.is_punct("("):
        c.skip_group()


def _is_call(c: Cursor) -> bool:
    following = c.peek(1)
    return following is not None and following.is_punct("(")


def _literal(c: Cursor, session: Session) -> Default | None:
    item = c.peek()
    if item is None:
        return None
    if item.kind is Kind.STRING:
        return Default(_strings(c), quoted=True)
    if item.kind is Kind.NUMBER:
        c.next()
        return _number(item)
    if item.kind is Kind.PUNCT and item.text in ("+", "-", "."):
        return _signed(c, item)
    if item.kind is Kind.WORD:
        return _word_literal(c, item, session)
    return None


def _strings(c: Cursor) -> str:
    text = c.next().text
    while (item := c.peek()) is not None and item.kind is Kind.STRING:
        text += c.next().text
    return text


def _number(item: Item) -> Default:
    if item.text[:2].lower() == "0x":
        return _hex(item.text[2:])
    if item.text[:2].lower() == "0b":
        return _bits(item.text[2:])
    return Default(_plain_number(item.text))


def _plain_number(text: str) -> str:
    # As a text column takes it: 007 is 7, and 1e3 is 1000.
    if text.isdigit():
        return str(int(text))
    if "e" not in text.lower():
        return f"0{text}" if text.startswith(".") else text
    return f"{float(text):.15g}".replace("e+", "e")


def _signed(c: Cursor, sign: Item) -> Default | None:
    c.next()
    text = "" if sign.text == "+" else sign.text
    if sign.text != "." and c.punct("."):
        text += "."
    item = c.peek()
    if item is None or item.kind is not Kind.NUMBER:
        return None
    c.next()
    return Default(text.rstrip(".") + _plain_number("." * text.endswith(".") + item.text))


def _word_literal(c: Cursor, item: Item, session: Session) -> Default | None:
    text, upper = item.text, item.text.upper()
    if upper == "NULL":
        c.next()
        return Default(None)
    if upper in ("TRUE", "FALSE") and not _is_call(c):
        c.next()
        return Default("1" if upper == "TRUE" else "0")
    if text[1:2] == "'" and upper[0] in "XBN":
        c.next()
        inner = text[2:-1]
        if upper[0] == "X":
            # MariaDB: a text, also where a number is wanted.
            return replace(_hex(inner), quoted=session.mariadb)
        return _bits(inner) if upper[0] == "B" else Default(inner.replace("''", "'"))
    following = c.peek(1)
    if text.startswith("_") and following is not None:
        if following.kind is Kind.STRING:
            c.next()
            return Default(_strings(c))
        if following.text[:2].lower() in ("x'", "0x", "b'"):
            c.next()
            return _literal(c, session)
    return None


_TEXTS = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\""
_NAMES = re.compile(_TEXTS + r"|`(?:[^`]|``)+`|[^\W\d][\w$]*\s*\(?")


def with_renamed(expression: str, names: Mapping[str, str]) -> str:
    """The expression after columns were renamed; ``names`` is by lower-case old name."""

    def renamed(found: re.Match[str]) -> str:
        word = found[0]
        if word[0] in "'\"" or word.endswith("("):
            return word
        name = word[1:-1].replace("``", "`") if word[0] == "`" else word.rstrip()
        new = names.get(name.lower())
        return word if new is None else quoted(new)

    return _NAMES.sub(renamed, expression)


def _hex(digits: str) -> Default:
    raw = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    number = int(digits or "0", 16)
    return Default(raw.decode("utf-8", "replace"), bits=f"b'{number:b}'")


def _bits(digits: str) -> Default:
    number = int(digits or "0", 2)
    raw = number.to_bytes(max(1, (len(digits) + 7) // 8), "big")
    return Default(raw.decode("utf-8", "replace"), bits=f"b'{number:b}'")
