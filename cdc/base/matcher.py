"""Table patterns ``schema.table`` in TiDB's table-filter syntax, compiled once.

Syntax (TiDB documentation, "Table Filter"): a rule is ``[!]schema.table``; each part is either
``/regex/`` (not anchored), a literal in backticks or double quotes (the quote doubled inside), or
a wildcard pattern with ``*``, ``?``, ``[a-z]`` and ``[!a-z]``, where a backslash takes the next
punctuation character literally. ``!`` negates the rule. Of several rules the last match wins.

Ours: ``[!]node:schema.table`` is about databases of such nodes alone, in an upstream of several.
Without it a rule is about the databases of that name of all nodes.

No name takes long to match: regular expressions are RE2's, and of a wildcard every ``*`` but the
last takes as little as it can and is never tried again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cdc.base.errors import InvalidError
from cdc.base.nodes import is_qualified, node_of, plain
from cdc.base.regex import Regex

_PLAIN = re.compile(r"[0-9A-Za-z_$\-]|[^\x00-\x7f]")
_HINT = "write schema.table, such as 'shop.*', '!shop.tmp_*' or 'node1:shop.*'"


class FilterRuleInvalid(InvalidError):
    """A rule that cannot be read; the message says where."""

    code = "TG:ErrFilterRuleInvalid"


@dataclass(frozen=True)
class Pattern:
    """One side of a rule: ``source`` in RE2's syntax, and whether case counts.

    ``wildcard`` is the same for Python's engine where the pattern is no regular expression of the
    user: of single names it is ten times as fast.
    """

    source: str
    case_sensitive: bool
    wildcard: re.Pattern[str] | None = None

    def matches(self, name: str) -> bool:
        """Whether a name matches."""
        if self.wildcard is not None:
            return self.wildcard.match(name) is not None
        return self.regex.search(name)

    @property
    def everything(self) -> bool:
        """Whether it is ``*``."""
        return self.source == _EVERYTHING

    @cached_property
    def regex(self) -> Regex:
        """For many names at once."""
        return Regex(self.source, ignore_case=not self.case_sensitive)


@dataclass(frozen=True, slots=True)
class TableRule:
    """One compiled rule. ``positive`` is false for a rule that began with ``!``.

    ``index`` is its place in the list that it came from; without ``node`` it is about all nodes.
    """

    text: str
    positive: bool
    schema: Pattern
    table: Pattern
    index: int = -1
    node: Pattern | None = None

    def applies(self, schema: str, table: str) -> bool:
        """Whether the patterns match, whatever the rule then says about the table."""
        return self.applies_to_schema(schema) and self.table.matches(table)

    def applies_to_schema(self, schema: str) -> bool:
        """Whether the parts before the table match."""
        if self.node is not None and not (
            is_qualified(schema) and self.node.matches(node_of(schema))
        ):
            return False
        return self.schema.matches(plain(schema))


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

    def matches_all(self, names: Sequence[tuple[str, str]]) -> NDArray[np.bool_]:
        """The same for many tables at once, given as (schema, table)."""
        found = np.zeros(len(names), np.bool_)
        schemas = pa.array([schema for schema, _ in names], pa.string()).dictionary_encode()
        codes = schemas.indices.to_numpy()
        tables = pa.array([table for _, table in names], pa.string())
        open_ = np.arange(len(names))
        distinct = _Schemas.of(schemas.dictionary.to_pylist())
        for rule in reversed(self.rules):
            hit = distinct.hit(rule)[codes[open_]]
            at = np.flatnonzero(hit)
            if len(at) and not rule.table.everything:
                at = at[_all(rule.table, pc.take(tables, pa.array(open_[at])))]
            if len(at):
                found[open_[at]] = rule.positive
                open_ = np.delete(open_, at)
        return found

    def matches_schema(self, schema: str) -> bool:
        """Whether any table of the schema could match.

        A negative rule takes a whole schema away only if its table part is ``*``.
        """
        for rule in reversed(self.rules):
            if rule.applies_to_schema(schema):
                if rule.positive:
                    return True
                if rule.table.everything:
                    return False
        return False


@dataclass(frozen=True, slots=True)
class NameMatcher:
    """Ordered rules about single names, such as columns'; the last that applies decides."""

    rules: tuple[tuple[bool, Pattern], ...]

    def matches(self, name: str) -> bool:
        """Whether the last rule that applies to the name is a positive one."""
        return next((yes for yes, p in reversed(self.rules) if p.matches(name)), False)


def parse_names(rules: Iterable[str]) -> NameMatcher:
    """Rules about names in the same syntax, whatever their case.

    Raises :class:`FilterRuleInvalid`.
    """
    found = []
    for text in rules:
        rest = text.strip()
        body = rest.removeprefix("!").lstrip()
        pattern, end = _part(text, body, 0, False)
        if end != len(body):
            raise _bad(text, f"unexpected {body[end]!r} after the name", end)
        found.append((not rest.startswith("!"), pattern))
    return NameMatcher(tuple(found))


def parse_matcher(rules: Iterable[str], *, case_sensitive: bool = False) -> TableMatcher:
    """Compile rules in order. Raises :class:`FilterRuleInvalid` naming the rule and the place."""
    return TableMatcher(tuple(parse_rule(r, case_sensitive=case_sensitive) for r in rules))


def parse_rule(text: str, *, case_sensitive: bool = False) -> TableRule:
    """Compile one rule. Raises :class:`FilterRuleInvalid`."""
    rest = text.strip()
    positive = not rest.startswith("!")
    body = rest if positive else rest[1:].lstrip()
    node = None
    schema, at = _part(text, body, 0, case_sensitive)
    if body[at : at + 1] == ":":
        node = schema
        schema, at = _part(text, body, at + 1, case_sensitive)
    if body[at : at + 1] != ".":
        raise _bad(text, "no '.' between schema and table", at)
    table, end = _part(text, body, at + 1, case_sensitive)
    if end != len(body):
        raise _bad(text, f"unexpected {body[end]!r} after the table", end)
    return TableRule(text, positive, schema, table, node=node)


@dataclass(frozen=True, slots=True)
class _Schemas:
    """Names of databases, each once; ``nodes`` is None where none is of a node."""

    plain: pa.Array
    nodes: pa.Array | None

    @classmethod
    def of(cls, names: Sequence[str]) -> _Schemas:
        if not any(map(is_qualified, names)):
            return cls(pa.array(names, pa.string()), None)
        nodes = [node_of(name) if is_qualified(name) else None for name in names]
        return cls(pa.array(map(plain, names), pa.string()), pa.array(nodes, pa.string()))

    def hit(self, rule: TableRule) -> NDArray[np.bool_]:
        """Which of them a rule is about."""
        if rule.node is None:
            return _all(rule.schema, self.plain)
        if self.nodes is None:
            return np.zeros(len(self.plain), np.bool_)
        there: NDArray[np.bool_] = self.nodes.is_valid().to_numpy(zero_copy_only=False)
        named = _all(rule.node, self.nodes.fill_null(""))
        return there & named & _all(rule.schema, self.plain)


def _all(pattern: Pattern, names: pa.Array) -> NDArray[np.bool_]:
    if pattern.everything:
        return np.ones(len(names), np.bool_)
    found: NDArray[np.bool_] = pattern.regex.search_all(names).to_numpy(zero_copy_only=False)
    return found


def _part(text: str, body: str, at: int, case_sensitive: bool) -> tuple[Pattern, int]:
    """One side of the dot, from ``at``: its pattern and the place behind it."""
    if at >= len(body):
        raise _bad(text, "pattern expected", at)
    try:
        if body[at] == "/":
            source, end = _regex(text, body, at)
            pattern = Pattern(source, case_sensitive)
        else:
            pieces, end = _wildcard(text, body, at)
            pattern = _of_pieces(pieces, case_sensitive)
        _ = pattern.regex
    except (ValueError, re.error) as e:
        raise _bad(text, f"bad pattern: {e}", at) from None
    return pattern, end


def _of_pieces(pieces: list[str], case_sensitive: bool) -> Pattern:
    source = rf"\A(?s:{_STAR.join(pieces)})\z"
    # What a star but the last takes need not be tried longer: what follows matches later as well.
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1])
    last = f".*{pieces[-1]}" if len(pieces) > 1 else ""
    flags = re.DOTALL | (0 if case_sensitive else re.IGNORECASE)
    return Pattern(source, case_sensitive, re.compile(rf"{pieces[0]}{middle}{last}\Z", flags))


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


def _wildcard(text: str, body: str, at: int) -> tuple[list[str], int]:
    """The expressions between the stars, and the place behind the pattern."""
    out: list[str] = []
    pieces: list[str] = []
    i = at
    while i < len(body) and body[i] not in ".:":
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
            pieces.append("".join(out))
            out = []
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
    if i == at:
        raise _bad(text, "pattern expected", at)
    return [*pieces, "".join(out)], i


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


_STAR = ".*"
_EVERYTHING = rf"\A(?s:{_STAR})\z"
