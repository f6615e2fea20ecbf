"""Text: whose collation wins, comparison, LIKE, and functions of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cdc.kernels import expr_contractions, expr_text
from cdc.schema.session import Session
from filter.expr.collations import UTF8, Collation, collation, encode, supported
from filter.expr.convert import refused
from filter.expr.values import (
    BIT,
    BOOLEAN,
    NARROW,
    Kind,
    Strength,
    Text,
    Type,
    Value,
    Vector,
    derive,
    no_state,
)

_PADDING = bytes(16)


def text_literal(text: str, type_: Type, at: int) -> Value:
    """A string literal in the type's character set."""
    return bytes_literal(encoded(text, type_, at), type_, at, text)


def encoded(text: str, type_: Type, at: int) -> bytes:
    """A literal's bytes in the type's character set; refused if that cannot hold it."""
    data = encode(text, type_.charset)
    if data is None:
        raise refused(
            f"{text!r} has characters that {type_.charset} does not have", at,
            "write text that the column can hold",
        )  # fmt: skip
    return data


def bytes_literal(data: bytes, type_: Type, at: int, literal: Any = None) -> Value:
    """Bytes as a constant text."""
    buf = np.frombuffer(data + _PADDING, np.uint8)
    text = Text(buf, np.zeros(1, np.int64), np.array([len(data)], np.int64))
    return Value(type_, lambda _: Vector(text, no_state()), at=at, constant=True, literal=literal)


def agreed(values: Sequence[Value], at: int) -> Type:
    """The type under which texts are compared or joined, as the servers agree on a collation."""
    every = [v for v in values if v.type.kind is Kind.STRING]
    if _stays_narrow(every, at):
        return NARROW
    texts = [v for v in every if v.type != NARROW] or every
    strongest = min(v.type.strength.value for v in texts)
    deciding = [v.type for v in texts if v.type.strength.value == strongest]
    first = deciding[0]
    if "set" in {t.charset for t in deciding}:
        raise refused("the text of a set column", at, "compare its number, such as tags & 4")
    for rival in deciding[1:]:
        if (rival.charset, rival.collation) == (first.charset, first.collation):
            continue
        raise refused(
            f"text of {first.collation} with text of {rival.collation}", at, "write COLLATE"
        )
    for other in texts:
        if other.type.charset == first.charset or isinstance(other.literal, str):
            continue
        if first.charset == "binary" and other.type.strength is Strength.LITERAL:
            continue
        raise refused(
            f"text of {first.charset} with text of {other.type.charset}", at,
            "compare texts of one character set",
        )  # fmt: skip
    if len(texts) < len(every) and (first.charset != "utf8mb4" or first.strength is Strength.MADE):
        raise refused(f"text of {first.charset} with what JSON_TYPE gives", at, "use a literal")
    return first


def _stays_narrow(texts: Sequence[Value], at: int) -> bool:
    """Whether what JSON_TYPE of MariaDB gives, standing first, meets nothing but ASCII literals.

    The server goes from left to right: behind a literal, or before one that is not ASCII, the
    literal's collation wins.
    """
    if texts[0].type != NARROW or any(v.type.strength is not Strength.LITERAL for v in texts):
        return False
    others = [v for v in texts if v.type != NARROW]
    if any(not isinstance(v.literal, str) for v in others):
        raise refused("what JSON_TYPE gives with what is no column", at, "use a literal")
    return all(v.literal.isascii() for v in others)


def standing(type_: Type, at: int) -> Type:
    """The same type; refused for what MariaDB's JSON_TYPE gives, which changes under CONCAT."""
    if type_ == NARROW:
        raise refused("JSON_TYPE within another function", at, "compare it with a literal")
    return type_


def under(value: Value, type_: Type) -> Value:
    """A text converted to the agreed type: literals are encoded for it."""
    if value.type.kind is not Kind.STRING or value.type.charset == type_.charset:
        return value
    if isinstance(value.literal, str):
        return text_literal(value.literal, replace(type_, strength=value.type.strength), value.at)
    return value


def together(values: Sequence[Value], at: int) -> list[Value]:
    """The same values with all their texts under the one collation that they agree on."""
    if sum(v.type.kind is Kind.STRING for v in values) < 2:
        return list(values)
    if any(v.width == BIT for v in values):
        # It makes servers compare the texts among themselves as bytes.
        raise refused("texts and a BIT column in one list", at, "write comparisons with OR")
    type_ = agreed(values, at)
    return [
        v if v.type.kind is not Kind.STRING else _retyped(under(v, type_), type_) for v in values
    ]


def _retyped(value: Value, type_: Type) -> Value:
    known = value.type.charset == type_.charset or value.type == NARROW
    if not known or value.type.collation == type_.collation:
        return value
    found = derive(replace(type_, strength=value.type.strength), [value], lambda v: v, value.at)
    found.literal, found.number, found.column = value.literal, value.number, value.column
    return found


def collated(value: Value, name: str, session: Session, at: int) -> Value:
    """``value COLLATE name``."""
    if value.type.kind is not Kind.STRING or value.type.charset == "set":
        raise refused("COLLATE on something that is no text", at, "leave COLLATE out")
    if value.type == NARROW:
        raise refused("COLLATE on what JSON_TYPE gives", at, "leave COLLATE out")
    charset = value.type.charset
    if session.mariadb and charset in UTF8 and name.startswith("uca1400_"):
        name = f"{charset}_{name}"
    if charset == "binary" and name != "binary":
        raise refused(f"COLLATE {name} on bytes", at, "leave COLLATE out")
    if not name.startswith(charset) and not (charset in UTF8 and name.startswith("utf8_")):
        raise refused(f"COLLATE {name} on text of {charset}", at, "name one of its collations")
    if not supported(charset, name) or not _known(name, session):
        raise refused(f"collation {name}", at, "see docs/filter-expressions.md")
    type_ = replace(value.type, collation=name, strength=Strength.EXPLICIT)
    found = derive(type_, [value], lambda v: v, at)
    found.literal = value.literal
    return found


def _known(name: str, session: Session) -> bool:
    """Whether a server has a supported collation of its family's or the other's."""
    if "uca1400" in name:
        return session.mariadb and session.version >= (10, 10, 1)
    return not (session.mariadb and "0900" in name)


def compare_texts(a: Vector, b: Vector, rule: Collation) -> Any:
    """-1, 0 or 1 for each row."""
    x, y = a.data, b.data
    out = np.empty(max(len(x.starts), len(y.starts)), np.int8)
    if rule.contractions.whole:
        expr_contractions.compare(
            x.buf, x.starts, x.lengths, y.buf, y.starts, y.lengths,
            rule.pad, rule.starts, rule.weights, *rule.contractions, out,
        )  # fmt: skip
        return out
    expr_text.compare(
        x.buf, x.starts, x.lengths, y.buf, y.starts, y.lengths,
        rule.kind, rule.pad, rule.table, rule.starts, rule.weights, out,
    )  # fmt: skip
    return out


def rule_of(type_: Type) -> Collation:
    """The tables of an agreed type."""
    return collation(type_.charset, type_.collation)


def _pattern(text: str, escape: str, type_: Type, at: int) -> Any:
    """Characters (or bytes), ANY and MANY."""
    found: list[int] = []
    literal = text
    data = encoded(text, type_, at)
    if type_.charset not in UTF8:
        # The special characters are ASCII, and bytes of their own here.
        literal = data.decode("latin-1")
    i = 0
    while i < len(literal):
        c = literal[i]
        if escape and c == escape and i + 1 < len(literal):
            i += 1
            found.append(ord(literal[i]))
        elif c == "%":
            if not found or found[-1] != expr_text.MANY:
                found.append(expr_text.MANY)
        else:
            found.append(expr_text.ANY if c == "_" else ord(c))
        i += 1
    return np.array(found, np.int64)


def like(value: Value, pattern: Value, escape: Value | None, session: Session, at: int) -> Value:
    """``value LIKE pattern ESCAPE escape``."""
    if value.type.kind is not Kind.STRING:
        raise refused(f"LIKE on a {value.type.kind.value}", at, "compare it")
    if not isinstance(pattern.literal, str):
        raise refused("LIKE with a pattern that is no literal", at, "write the pattern")
    character = "" if session.no_backslash_escapes else "\\"
    if escape is not None:
        if not isinstance(escape.literal, str) or len(escape.literal) > 1:
            raise refused("ESCAPE with something else than one character", at, "write ESCAPE '|'")
        character = escape.literal
        if not character.isascii() or not character or character in "%_":
            raise refused(f"ESCAPE {character!r}", at, "write ESCAPE '|'")
    type_ = agreed([value, pattern], at)
    value = under(value, type_)
    rule = rule_of(type_)
    codes = _pattern(pattern.literal, character, type_, at)

    def run(v: Vector) -> Vector:
        text = v.data
        out = np.empty(len(text.starts), np.bool_)
        expr_text.like(
            text.buf, text.starts, text.lengths, codes,
            rule.kind, rule.table, rule.starts, rule.weights, out,
        )  # fmt: skip
        return Vector(out, v.state)

    return derive(BOOLEAN, [value], run, at)


def length(value: Value, at: int) -> Value:
    """LENGTH: bytes."""
    _only_text(value, "LENGTH", at)
    return derive(Type(Kind.INT, digits=10), [value], lambda v: Vector(v.data.lengths, v.state), at)


def char_length(value: Value, at: int) -> Value:
    """CHAR_LENGTH: characters."""
    _only_text(value, "CHAR_LENGTH", at)
    kind = expr_text.UTF8_BIN if value.type.charset in UTF8 else expr_text.BYTES_ONLY

    def run(v: Vector) -> Vector:
        out = np.empty(len(v.data.starts), np.int64)
        expr_text.characters(v.data.buf, v.data.starts, v.data.lengths, kind, out)
        return Vector(out, v.state)

    return derive(Type(Kind.INT, digits=10), [value], run, at)


def _only_text(value: Value, name: str, at: int) -> None:
    if value.type.kind is not Kind.STRING or value.type.charset == "set":
        raise refused(f"{name} of something that is no text", at, "use a text column")
