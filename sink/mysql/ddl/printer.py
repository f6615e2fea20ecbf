"""Tables as SQL text, from values: what translation of text has left different."""

from __future__ import annotations

from dataclasses import replace

from cdc.schema.printed import column_text, key_text, string_text
from cdc.schema.table import Partitioning, Table
from cdc.schema.tokens import quoted
from sink.mysql.ddl.facets import OPTIONS, ORDER, Key
from sink.mysql.ddl.server import TargetServer
from sink.schema_change import TableName


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
        words.append(f"COMMENT {string_text(table.comment, backslash)}")
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
        found.append(f"COMMENT {string_text(after.comment, backslash)}")
    return found
