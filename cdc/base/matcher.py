"""Table patterns ``schema.table`` in TiDB's table-filter syntax, compiled once.

Syntax (TiDB documentation, "Table Filter"): a rule is ``[!]schema.table``; each part is either
``/regex/`` (not anchored), a literal in backticks or double quotes (the quote doubled inside), or
a wildcard pattern with ``*``, ``?``, ``[a-z]`` and ``[!a-z]``, where a backslash takes the next
punctuation character literally. ``!`` negates the rule. Of several rules the last match wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cdc.base.errors import InvalidError

_PLAIN = re.compile(r"[0-9A-Za-z_$\-]|[^\x00-\x7f]")
_HINT = "write schema.table, such as 'shop.*' or '!shop.tmp_*'"


class FilterRuleInvalid(InvalidError):
    """A rule that cannot be read; the message says where."""

    code = "TG:ErrFilterRuleInvalid"


@dataclass(frozen=True, slots=True)
class TableRule:
    """One compiled rule. ``positive`` is false for a rule that began with ``!``."""

    text: str
    positive: bool
    schema: re.Pattern[str]
    table: re.Pattern[str]

    def applies(self, schema: str, table: str) -> bool:
        """Whether the patterns match, whatever the rule then says about the table."""
        return bool(self.schema.search(schema)) and bool(self.table.search(table))

    def applies_to_schema(self, schema: str) -> bool:
        """Whether the schema part matches."""
        return bool(self.schema.search(schema))


@dataclass(frozen=True, slots=True)
class TableMatcher:
    """Ordered rules; the last that applies decides, and none means no match."""

    rules: tuple[TableRule, ...]

    def decides(self, schema: str, table: str) -> TableRule | None:
        """The rule that decides about a table, or ``None``."""
        for rule in reversed(self.rules):
            if rule.applies(schema, table):
                return rule
        return None

    def matches(self, schema: str, table: str) -> bool:
        """Whether the deciding rule is a positive one."""
        rule = self.decides(schema, table)
        return rule is not None and rule.positive

    def matches_schema(self, schema: str) -> bool:
        """Whether any table of the schema could match.

        A negative rule takes a whole schema away only if its table part is ``*``.
        """
        for rule in reversed(self.rules):
            if rule.applies_to_schema(schema):
                if rule.positive:
                    return True
                if rule.table.pattern == _EVERYTHING:
                    return False
        return False


def parse_matcher(rules: Iterable[str], *, case_sensitive: bool = False) -> TableMatcher:
    """Compile rules in order. Raises :class:`FilterRuleInvalid` naming the rule and the place."""
    return TableMatcher(tuple(parse_rule(r, case_sensitive=case_sensitive) for r in rules))


def parse_rule(text: str, *, case_sensitive: bool = False) -> TableRule:
    """Compile one rule. Raises :class:`FilterRuleInvalid`."""
    rest = text.strip()
    positive = not rest.startswith("!")
    body = rest if positive else rest[1:].lstrip()
    schema, at = _part(text, body, 0, case_sensitive)
    if body[at : at + 1] != ".":
        raise _bad(text, "no '.' between schema and table", at)
    table, end = _part(text, body, at + 1, case_sensitive)
    if end != len(body):
        raise _bad(text, f"unexpected {body[end]!r} after the table", end)
    return TableRule(text, positive, schema, table)


def _part(text: str, body: str, at: int, case_sensitive: bool) -> tuple[re.Pattern[str], int]:
    """One side of the dot, from ``at``: its pattern and the place behind it."""
    if at >= len(body):
        raise _bad(text, "pattern expected", at)
    if body[at] == "/":
        source, end = _regex(text, body, at)
    else:
        source, end = _wildcard(text, body, at)
        source = rf"\A(?:{source})\Z"
    try:
        return re.compile(source, re.DOTALL | (0 if case_sensitive else re.IGNORECASE)), end
    except re.error as e:
        raise _bad(text, f"bad pattern: {e}", at) from None


def _regex(text: str, body: str, at: int) -> tuple[str, int]:
    out: list[str] = []
    i = at + 1
    while i < len(body):
        if body[i] == "\\" and i + 1 < len(body):
            out.append("/" if body[i + 1] == "/" else body[i : i + 2])
            i += 2
        elif body[i] == "/":
            if not out:
                raise _bad(text, "empty regular expression", at)
            return "".join(out), i + 1
        else:
            out.append(body[i])
            i += 1
    raise _bad(text, "regular expression without its closing '/'", at)


def _wildcard(text: str, body: str, at: int) -> tuple[str, int]:
    out: list[str] = []
    i = at
    while i < len(body) and body[i] != ".":
        c = body[i]
        if c in '`"':
            literal, i = _quoted(text, body, i)
            out.append(re.escape(literal))
            continue
        if c == "[":
            charset, i = _charset(text, body, i)
            out.append(charset)
            continue
        if c == "*":
            out.append(".*")
        elif c == "?":
            out.append(".")
        elif c == "\\":
            i += 1
            if i >= len(body) or (body[i].isascii() and body[i].isalnum()):
                raise _bad(text, "a backslash takes only punctuation literally", i)
            out.append(re.escape(body[i]))
        elif _PLAIN.match(c):
            out.append(re.escape(c))
        else:
            raise _bad(text, f"unexpected {c!r} (quote the name or escape it with \\)", i)
        i += 1
    if not out:
        raise _bad(text, "pattern expected", at)
    return "".join(out), i


def _quoted(text: str, body: str, at: int) -> tuple[str, int]:
    quote = body[at]
    out: list[str] = []
    i = at + 1
    while i < len(body):
        if body[i] == quote:
            if body[i + 1 : i + 2] != quote:
                if not out:
                    raise _bad(text, "empty quoted name", at)
                return "".join(out), i + 1
            i += 1
        out.append(body[i])
        i += 1
    raise _bad(text, f"quoted name without its closing {quote}", at)


def _charset(text: str, body: str, at: int) -> tuple[str, int]:
    i = at + 1
    negate = body[i : i + 1] == "!"
    i += negate
    out: list[str] = []
    while i < len(body) and body[i] != "]":
        if body[i] == "\\":
            i += 1
            if i >= len(body):
                break
            out.append("\\" + body[i])
        else:
            out.append("\\" + body[i] if body[i] in "[^&~|" else body[i])
        i += 1
    if i >= len(body):
        raise _bad(text, "'[' without its closing ']'", at)
    if not out:
        raise _bad(text, "empty '[]'", at)
    return f"[{'^' if negate else ''}{''.join(out)}]", i + 1


def _bad(text: str, what: str, at: int) -> FilterRuleInvalid:
    return FilterRuleInvalid(
        f"rule {text!r}: {what}", object=text, position=f"character {at + 1}", hint=_HINT
    )


_EVERYTHING = r"\A(?:.*)\Z"
