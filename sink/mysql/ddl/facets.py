"""A table as separate facts, each of which a statement may change, and their comparison.

Only facts that a statement changes are looked at: a key that only the target has is no business
of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cdc.schema.table import Column, Index, Partitioning, Table
from cdc.schema.types import INTEGERS

Key = tuple[str, ...]
Facts = Mapping[Key, Any]
EXISTS = ("table",)
ORDER = ("order of columns",)
# Options that every server shows as they were given, and values that are the same as none.
OPTIONS = frozenset(
    "ROW_FORMAT MAX_ROWS MIN_ROWS AVG_ROW_LENGTH PACK_KEYS CHECKSUM DELAY_KEY_WRITE KEY_BLOCK_SIZE"
    " STATS_PERSISTENT STATS_AUTO_RECALC STATS_SAMPLE_PAGES".split()
)
_NEUTRAL = ("0", "default", "")
_INTRODUCER = re.compile(r"(?<![\w$])_(?:utf8mb[34]|latin1|ascii|binary|utf8)(?=\\?')")


@dataclass(frozen=True, slots=True)
class PrintedExpression:
    """An expression, which each server prints in its own way."""

    normal: str


def _expression(text: str | None) -> PrintedExpression | None:
    if text is None:
        return None
    bare = _INTRODUCER.sub("", text.lower().replace("\\'", "'"))
    return PrintedExpression(re.sub(r"[\s`()]", "", bare))


def facts(table: Table | None) -> Facts:
    """All that can be compared of a table; of none, that there is none."""
    if table is None:
        return {EXISTS: False}
    found: dict[Key, Any] = {EXISTS: True}
    for column in table.columns:
        name = column.name.lower()
        found["column", name] = _column(column)
        found["default", name] = _default(column)
        found["expression", name] = _expression(column.expression)
    found[ORDER] = tuple(c.name.lower() for c in table.columns)
    for index in table.indexes:
        found["key", index.name.lower()] = _key(index)
    found["engine",] = table.engine
    found["collation",] = (table.charset, table.collation)
    found["comment",] = table.comment
    found["system versioning",] = table.versioned
    for name, columns in table.periods:
        found["period", name] = tuple(sorted(c.lower() for c in columns))
    for option, value in table.options:
        if option in OPTIONS and value.lower() not in _NEUTRAL:
            found["option", option] = value.lower()
    found |= _partitions(table.partitioning)
    return found


def _column(c: Column) -> tuple[Any, ...]:
    size: tuple[int | None, ...] = (c.length, c.scale)
    if c.data_type in INTEGERS or c.data_type in ("year", "json", "enum", "set"):
        # Newer servers do not keep the display width.
        size = ()
    return (
        c.name,
        c.data_type,
        size,
        c.unsigned,
        c.zerofill,
        c.charset,
        c.collation,
        c.nullable,
        str(c.generated),
        c.invisible,
        c.auto_increment,
        len(c.members),
        PrintedExpression(",".join(c.members)),
        c.comment,
        c.on_update,
        c.srid,
        c.compressed,
    )


def _default(c: Column) -> tuple[str, PrintedExpression] | None:
    # Servers rewrite literals in the type of the column: zeroes of dates, digits of decimals.
    if c.default is None or c.generated:
        return None
    if c.compressed and not c.nullable and c.default in ("", "''"):
        # MariaDB shows an empty default where none was written.
        return None
    bare = _INTRODUCER.sub("", c.default.lower().replace("\\'", "'"))
    now = "now" if c.default_expression and bare.startswith("current_timestamp") else ""
    return now, PrintedExpression(re.sub(r"[\s`()']", "", bare))


def _key(index: Index) -> tuple[Any, ...]:
    count = len(index.columns)
    return (
        tuple(name.lower() for name in index.columns),
        index.unique,
        index.primary,
        index.prefixes or (None,) * count,
        index.descending or (False,) * count,
        index.kind,
        index.visible,
        tuple(_expression(e) for e in index.expressions),
    )


def _partitions(parts: Partitioning | None) -> dict[Key, Any]:
    if parts is None:
        return {}
    found: dict[Key, Any] = {
        ("partitioned",): (parts.method, parts.sub_method),
        ("partitioned by",): _expression(parts.expression),
        ("subpartitioned by",): _expression(parts.sub_expression),
        ("partitions",): tuple((p.name, p.subpartitions) for p in parts.partitions),
    }
    for p in parts.partitions:
        found["partition", p.name] = _expression(p.values)
    return found


class Match(StrEnum):
    """How well what is there fits what is expected."""

    YES = "yes"
    MAYBE = "maybe"
    NO = "no"


def changed(before: Facts, after: Facts) -> frozenset[Key]:
    """Facts that a statement changes."""
    return frozenset(key for key in {*before, *after} if before.get(key) != after.get(key))


def compare(expected: Facts, shown: Facts, keys: Iterable[Key]) -> tuple[Match, list[str]]:
    """Whether these facts are as expected, and a short line for each that is not.

    Expressions that only read differently may still be the same: then it is ``MAYBE``.
    """
    match, found = differing(expected, shown, keys)
    return match, [
        f"{' '.join(key)}: {_shown(expected.get(key))} expected, the target has "
        f"{_shown(shown.get(key))}"
        for key in found
    ]


def differing(expected: Facts, shown: Facts, keys: Iterable[Key]) -> tuple[Match, list[Key]]:
    """The same with the keys of what is not as expected."""
    unsure, found = False, []
    for key in sorted(keys):
        a, b = expected.get(key), shown.get(key)
        if key == ORDER and a and b:
            # Columns that only the target has do not count.
            b = tuple(name for name in b if name in set(a))
        if a == b:
            continue
        if _has_text(a) and _has_text(b) and _blank(a) == _blank(b):
            unsure = True
            continue
        found.append(key)
    if found:
        return Match.NO, found
    return (Match.MAYBE if unsure else Match.YES), found


def _has_text(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_has_text(v) for v in value)
    return isinstance(value, PrintedExpression)


def _blank(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_blank(v) for v in value)
    return PrintedExpression("") if isinstance(value, PrintedExpression) else value


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, tuple):
        return "(" + ", ".join(_shown(v) for v in value if v not in (None, False, "", ())) + ")"
    return value.normal if isinstance(value, PrintedExpression) else str(value)
