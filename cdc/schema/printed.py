"""Columns and keys as SQL text, from values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cdc.schema.table import Column, Generated, Index
from cdc.schema.tokens import quoted

_NOTE = re.compile(r" /\*.*?\*/")
_LONG = ("text", "blob", "json", "geometry", "point", "polygon", "linestring")
_PLACED = ("char", "varchar")


class Dialect(Protocol):
    """Whose words a text has; ``collations`` are other names of some."""

    @property
    def mariadb(self) -> bool: ...
    @property
    def collations(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Family:
    """A family of servers, with the names that collations have everywhere."""

    mariadb: bool
    collations: Mapping[str, str] = field(default_factory=dict)


def column_text(c: Column, server: Dialect, *, backslash: bool = True) -> str:
    """A definition with its name. ``backslash``: as for :func:`string_text`."""
    words = [quoted(c.name), _type(c)]
    if c.compressed and server.mariadb:
        words.append("COMPRESSED")
    if c.charset and c.charset != "binary":
        words.append(f"CHARACTER SET {c.charset}")
    if c.collation and c.collation != "binary":
        words.append(f"COLLATE {server.collations.get(c.collation, c.collation)}")
    if c.generated is not Generated.NO:
        words.append(f"GENERATED ALWAYS AS ({c.expression}) {c.generated}")
    if not (c.generated and server.mariadb):
        words.append("NULL" if c.nullable else "NOT NULL")
    if c.default is not None and not c.generated:
        words.append(f"DEFAULT {_default(c, server, backslash)}")
    if c.on_update:
        words.append(f"ON UPDATE {c.on_update}")
    if c.auto_increment:
        words.append("AUTO_INCREMENT")
    if c.invisible:
        words.append("INVISIBLE")
    if c.srid is not None and not server.mariadb:
        words.append(f"SRID {c.srid}")
    if c.comment:
        words.append(f"COMMENT {string_text(c.comment, backslash)}")
    return " ".join(words)


def _type(c: Column) -> str:
    if c.data_type in _PLACED and not c.column_type.startswith(c.data_type):
        return f"{c.data_type}({c.length})"
    if c.data_type == "longtext":
        return "longtext"
    return _NOTE.sub("", c.column_type)


def _default(c: Column, server: Dialect, backslash: bool) -> str:
    text = c.default or ""
    if c.default_expression:
        return text if text.startswith("current_timestamp") else f"({text})"
    literal = text if text.startswith("b'") else string_text(text, backslash)
    long = c.data_type.endswith(_LONG) and not server.mariadb
    return f"({literal})" if long else literal


def string_text(text: str, backslash: bool) -> str:
    """A literal. ``backslash``: it escapes in strings of the session."""
    if backslash:
        text = text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'"


def key_text(index: Index, server: Dialect) -> str:
    """``[UNIQUE] KEY name (parts)`` as ADD takes it."""
    prefixes = index.prefixes or (None,) * len(index.columns)
    descending = index.descending or (False,) * len(index.columns)
    expressions = iter(index.expressions)
    parts = []
    for name, prefix, down in zip(index.columns, prefixes, descending, strict=True):
        part = quoted(name) if name else f"({next(expressions, '')})"
        parts.append(part + (f"({prefix})" if prefix else "") + (" DESC" if down else ""))
    listed = ", ".join(parts)
    if index.primary:
        return f"PRIMARY KEY ({listed})"
    kind = "UNIQUE " if index.unique else f"{index.kind} " if index.kind else ""
    hidden = "" if index.visible else " IGNORED" if server.mariadb else " INVISIBLE"
    return f"{kind}KEY {quoted(index.name)} ({listed}){hidden}"
