"""Which logical table a physical one is a part of: by patterns of names, and as marks tell.

A pattern is ``database.table`` with ``{schema}`` and ``{table}`` where the logical names stand,
``#`` for digits, ``?`` for any character and ``*`` for any characters:
``{schema}_#.{table}_????_#``. Before it may stand ``broadcast:``, where each part has all rows, or
``marked:``, where marks tell which tables are parts (:mod:`cdc.logical.topology`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from cdc.logical.errors import LogicalNamesInvalid

TableName = tuple[str, str]
Part = tuple[str, str, str]
"""Node, database, table."""

_PIECES = {"{schema}": "(?P<schema>.+?)", "{table}": "(?P<table>.+?)", "#": "[0-9]+", "?": ".",
           "*": ".*"}  # fmt: skip
_SPLIT = re.compile(r"(\{schema\}|\{table\}|[#?*])")
_LONGEST = 200
BROADCAST = "broadcast:"
MARKED = "marked:"
# PolarDB-X calls the table of a global index so.
_OF_INDEX = re.compile(r"_\$[0-9a-zA-Z]{4}$")


def compiled(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A pattern as expressions over a database and a table. Raises LogicalNamesInvalid."""
    database, dot, table = pattern.removeprefix(BROADCAST).removeprefix(MARKED).partition(".")
    for what, wrong in (
        ("has no dot", not dot),
        ("is too long", len(pattern) > _LONGEST),
        ("has not {schema} once, before the dot", pattern.count("{schema}") != 1),
        ("has not {schema} once, before the dot", "{schema}" not in database),
        ("has not {table} once, behind the dot", pattern.count("{table}") != 1),
        ("has not {table} once, behind the dot", "{table}" not in table),
        ("has stars beside each other", "**" in pattern),
        (
            "is both broadcast and marked",
            pattern.startswith((BROADCAST + MARKED, MARKED + BROADCAST)),
        ),
    ):
        if wrong:
            raise LogicalNamesInvalid(
                what, object=f"pattern {pattern[:_LONGEST]}",
                hint="for example {schema}_#.{table}_#",
            )  # fmt: skip
    # Names have 64 characters at most, so what is tried stays little.
    return _expression(database), _expression(table)


def _expression(text: str) -> re.Pattern[str]:
    pieces = (_PIECES.get(piece, re.escape(piece)) for piece in _SPLIT.split(text))
    return re.compile("".join(pieces), re.DOTALL)


@dataclass(frozen=True, slots=True)
class PartNames:
    """The logical table of each part: by ``patterns``, the first that fits, unless it was moved.

    ``moved``: by the name that the patterns give, the one that a table has been given since.
    ``broadcast``: logical tables of which each part has all rows, beside those of patterns.
    ``told``: by part, as marks tell it, its logical table, where its name says another or none.
    ``gone``: tables that are called as parts, and are none as marks tell it.
    """

    patterns: tuple[str, ...]
    moved: Mapping[TableName, TableName] = field(default_factory=dict)
    broadcast: frozenset[TableName] = frozenset()
    told: Mapping[Part, TableName] = field(default_factory=dict)
    gone: frozenset[Part] = frozenset()

    @property
    def by_marks(self) -> bool:
        """Whether marks tell any parts."""
        return any(pattern.startswith(MARKED) for pattern in self.patterns)

    def of(self, node: str, schema: str, table: str) -> TableName | None:
        """The logical table of which a node's table is a part; None: it is none."""
        part = node, schema, table
        told = self.told.get(part)
        return told if told is not None or part in self.gone else self.by_name(schema, table)

    def by_name(self, schema: str, table: str) -> TableName | None:
        """The same as names and statements tell it.

        Parts of global indexes are tables too, which nobody is shown.
        """
        by_pattern = self.by_pattern(schema, table)
        if by_pattern is None or _OF_INDEX.search(by_pattern[1]):
            return None
        return self.moved.get(by_pattern, by_pattern)

    def by_pattern(self, schema: str, table: str) -> TableName | None:
        """The same by the patterns alone."""
        found = self._fitting(schema, table)
        return None if found is None else found[1]

    def everywhere(self, node: str, schema: str, table: str) -> bool:
        """Whether a node's table is a part that has all rows of its logical table."""
        found, name = self._fitting(schema, table), self.of(node, schema, table)
        return name in self.broadcast or (found is not None and found[0].startswith(BROADCAST))

    def marked(self, schema: str, table: str) -> bool:
        """Whether a physical table is a part when marks say so, and not by its name alone."""
        found = self._fitting(schema, table)
        return found is not None and found[0].startswith(MARKED)

    def by_names_alone(self, table: TableName, parts: Iterable[TableName]) -> bool:
        """Whether a table is an index, or of those whose parts are told by their names."""
        fitting = (self._fitting(*part) for part in parts)
        named = (found is not None and not found[0].startswith(MARKED) for found in fitting)
        return bool(_OF_INDEX.search(table[1])) or all(named)

    def _fitting(self, schema: str, table: str) -> tuple[str, TableName] | None:
        return _fitting(self.patterns, schema, table)

    def database(self, schema: str) -> str | None:
        """The logical database of which a physical one is a part; None: it is none."""
        found = (_compiled(pattern)[0].fullmatch(schema) for pattern in self.patterns)
        return next((one["schema"] for one in found if one is not None), None)

    def renamed(self, old: TableName, new: TableName, *, parts: bool) -> PartNames:
        """After a logical table was renamed; ``parts``: its parts too."""
        broadcast = frozenset(new if table == old else table for table in self.broadcast)
        origin = next((k for k, v in self.moved.items() if v == old), old)
        moved = self.moved if parts else {**self.moved, origin: new}
        moved = {k: v for k, v in moved.items() if k != v}
        told = {part: new if table == old else table for part, table in self.told.items()}
        return replace(self, moved=moved, broadcast=broadcast, told=told)

    def dropped(self, table: TableName) -> PartNames:
        """After a logical table was dropped."""
        left = self.placed(table, (), ())
        moved = {k: v for k, v in self.moved.items() if v != table}
        return replace(left, moved=moved, broadcast=self.broadcast - {table})

    def spread(self, table: TableName) -> PartNames:
        """After a logical table was made each part of which has all rows."""
        return replace(self, broadcast=self.broadcast | {table})

    def placed(self, table: TableName, parts: Iterable[Part], known: Iterable[Part]) -> PartNames:
        """After a mark told all ``parts`` of a logical table; ``known``: tables that there are."""
        parts = frozenset(parts)
        others = {p: t for p, t in self.told.items() if t != table and p not in parts}
        named = {p for p in known if self.by_name(*p[1:]) == table}
        gone = {p for p in self.gone if self.by_name(*p[1:]) != table} | named
        return replace(
            self,
            told=others | {p: table for p in parts if self.by_name(*p[1:]) != table},
            gone=frozenset(gone - parts),
        )

    def to_dict(self) -> dict[str, Any]:
        """What is not in the patterns, as JSON."""
        return {
            "moved": [[list(k), list(v)] for k, v in sorted(self.moved.items())],
            "broadcast": [list(table) for table in sorted(self.broadcast)],
            "told": [[list(k), list(v)] for k, v in sorted(self.told.items())],
            "gone": [list(part) for part in sorted(self.gone)],
        }

    def kept(self, value: Mapping[str, Any]) -> PartNames:
        """Inverse of :meth:`to_dict`."""
        moved = {(a, b): (c, d) for (a, b), (c, d) in value.get("moved", ())}
        broadcast = frozenset((a, b) for a, b in value.get("broadcast", ()))
        told = {(a, b, c): (d, e) for (a, b, c), (d, e) in value.get("told", ())}
        gone = frozenset((a, b, c) for a, b, c in value.get("gone", ()))
        return PartNames(self.patterns, moved, broadcast, told, gone)


# A mark that moves one table asks for all that there are.
@lru_cache(maxsize=1 << 17)
def _fitting(patterns: tuple[str, ...], schema: str, table: str) -> tuple[str, TableName] | None:
    """The first pattern that fits, and the logical table that it tells."""
    for pattern in patterns:
        database, name = _compiled(pattern)
        a, b = database.fullmatch(schema), name.fullmatch(table)
        if a is not None and b is not None:
            return pattern, (a["schema"], b["table"])
    return None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    return compiled(pattern)
