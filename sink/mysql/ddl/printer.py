"""Columns and keys as SQL text, from values: what translation of text has left different."""

from __future__ import annotations

import re
from dataclasses import replace

from cdc.schema.table import Column, Generated, Index, Partitioning, Table
from cdc.schema.tokens import quoted
from sink.mysql.ddl.facets import OPTIONS, ORDER, Key
from sink.mysql.ddl.server import TargetServer
from sink.schema_change import TableName

_NOTE = re.compile(r" /\*.*?\*/")
_LONG = ("text", "blob", "json", "geometry", "point", "polygon", "linestring")
_PLACED = ("char", "varchar")


def column_text(c: Column, server: TargetServer, *, backslash: bool = True) -> str:
    """A definition with its name. ``backslash``: it escapes in strings of the session."""
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
        words.append(f"COMMENT {_string(c.comment, backslash)}")
    return " ".join(words)


def _type(c: Column) -> str:
    if c.data_type in _PLACED and not c.column_type.startswith(c.data_type):
        return f"{c.data_type}({c.length})"
    if c.data_type == "longtext":
        return "longtext"
    return _NOTE.sub("", c.column_type)


def _default(c: Column, server: TargetServer, backslash: bool) -> str:
    text = c.default or ""
    if c.default_expression:
        return text if text.startswith("current_timestamp") else f"({text})"
    literal = text if text.startswith("b'") else _string(text, backslash)
    long = c.data_type.endswith(_LONG) and not server.mariadb
    return f"({literal})" if long else literal


def _string(text: str, backslash: bool) -> str:
    if backslash:
        text = text.replace("\\", "\\\\")
    return "'" + text.replace("'", "''") + "'"


def table_text(
    table: Table, name: TableName, server: TargetServer, *, backslash: bool = True
) -> str | None:
    """CREATE TABLE of a table without rows, checks or foreign keys.

    None for what a value does not say: system versioning and periods.
    """
    if table.versioned or table.periods:
        return None
    default = (table.charset, table.collation)
    columns = [
        replace(c, charset=None, collation=None) if (c.charset, c.collation) == default else c
        for c in table.columns
    ]
    parts = [column_text(c, server, backslash=backslash) for c in columns]
    parts += [key_text(index, server) for index in table.indexes]
    words = [f"CREATE TABLE {quoted(*name)} ({', '.join(parts)}) ENGINE={table.engine}"]
    if table.charset and table.collation:
        own = server.collations.get(table.collation, table.collation)
        words.append(f"DEFAULT CHARACTER SET {table.charset} COLLATE {own}")
    words += [f"{option}={value}" for option, value in table.options if option in OPTIONS]
    if table.comment:
        words.append(f"COMMENT {_string(table.comment, backslash)}")
    if table.partitioning is not None:
        words.append(_partitions(table.partitioning))
    return " ".join(words)


def _partitions(parts: Partitioning) -> str:
    words = [f"PARTITION BY {parts.method} ({parts.expression})"]
    if parts.sub_method:
        words.append(f"SUBPARTITION BY {parts.sub_method} ({parts.sub_expression})")
    listed = []
    for p in parts.partitions:
        text = f"PARTITION {quoted(p.name)}" + (f" VALUES {p.values}" if p.values else "")
        subs = ", ".join(f"SUBPARTITION {quoted(name)}" for name in p.subpartitions)
        listed.append(text + (f" ({subs})" if subs else ""))
    return f"{' '.join(words)} ({', '.join(listed)})"


def key_text(index: Index, server: TargetServer) -> str:
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


def repairing(
    after: Table, shown: Table, keys: frozenset[Key], server: TargetServer, *, backslash: bool
) -> list[str]:
    """Actions of ALTER TABLE that make these facts of ``shown`` as they are in ``after``.

    What no action can mend is left out.
    """
    found = []
    names = {key[1] for key in keys if key[0] in ("column", "default", "expression")}
    moving = ORDER in keys
    place = "FIRST"
    for column in after.columns:
        if column.name.lower() not in shown.positions:
            continue
        if moving or column.name.lower() in names:
            text = column_text(column, server, backslash=backslash)
            found.append(f"MODIFY COLUMN {text}{f' {place}' if moving else ''}")
        place = f"AFTER {quoted(column.name)}"
    there = {index.name.lower() for index in shown.indexes}
    for index in after.indexes:
        if ("key", index.name.lower()) in keys:
            if index.name.lower() in there:
                found.append(f"DROP KEY {quoted(index.name)}")
            found.append(f"ADD {key_text(index, server)}")
    ours = {index.name.lower() for index in after.indexes}
    for index in shown.indexes:
        if ("key", index.name.lower()) in keys and index.name.lower() not in ours:
            found.append(f"DROP KEY {quoted(index.name)}")
    if ("collation",) in keys and after.collation:
        own = server.collations.get(after.collation, after.collation)
        found.append(f"DEFAULT CHARACTER SET {after.charset} COLLATE {own}")
    if ("comment",) in keys:
        found.append(f"COMMENT {_string(after.comment, backslash)}")
    return found
