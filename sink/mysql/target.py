"""Tables of the target as values, by its own SHOW CREATE TABLE."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import pymysql

from cdc.schema.snapshot import load
from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from sink.mysql.connection import SinkSession
from sink.mysql.errors import TargetIncompatible, TargetTableMissing, map_error


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A base table of the target; ``engine`` in lower case."""

    table: Table
    engine: str
    transactional: bool

    @property
    def name(self) -> str:
        """``schema.table``."""
        return self.table.full_name


def read_table(session: SinkSession, schema: str, name: str) -> TargetTable:
    """The table as it is now.

    Raises TargetTableMissing; TargetIncompatible for what is no base table (views, sequences,
    system-versioned tables); DDLNotUnderstood for a definition that we cannot read.
    """
    object = f"{schema}.{name} at {session.settings.address}"
    try:
        found = session.rows(
            "SELECT t.table_type AS kind, t.engine AS engine, e.transactions AS transactions,"
            " s.default_character_set_name AS charset, s.default_collation_name AS collation"
            " FROM information_schema.tables t"
            " JOIN information_schema.schemata s ON s.schema_name = t.table_schema"
            " LEFT JOIN information_schema.engines e ON e.engine = t.engine"
            " WHERE t.table_schema = %s AND t.table_name = %s",
            schema,
            name,
        )
        if not found:
            raise TargetTableMissing(
                "the target has no such table, or hides it from the sink's user",
                object=object,
                hint="create it at the target, and grant SELECT on it",
            )
        row = found[0]
        if row["kind"] != "BASE TABLE":
            raise TargetIncompatible(
                f"it is a {str(row['kind']).lower()} at the target",
                object=object,
                hint="deliver into a base table",
            )
        shown = session.rows(f"SHOW CREATE TABLE {quoted(schema, name)}")[0]["create table"]
    except pymysql.err.Error as error:
        raise map_error(error, object) from None
    table = printed(session, schema, name, str(shown), (row["charset"], row["collation"]))
    return TargetTable(table, str(row["engine"]).lower(), row["transactions"] == "YES")


def printed(
    session: SinkSession, schema: str, name: str, text: str, database: tuple[str, str]
) -> Table:
    """The table of a SHOW CREATE TABLE text; ``database`` has its charset and collation.

    Raises DDLNotUnderstood.
    """
    snapshot = {
        "ts": 0,
        "server": {"kind": session.target.kind, "version": session.target.version},
        "databases": {schema: {"charset": database[0], "collation": database[1]}},
        "tables": {f"{schema}.{name}": text},
    }
    return load(snapshot)[schema, name]


def references(session: SinkSession, schemas: Iterable[str]) -> list[tuple[str, str]]:
    """Foreign keys of tables in these schemas: (child, parent), each as ``schema.table``.

    PyMySQL's errors pass.
    """
    found = []
    for schema in sorted(set(schemas)):
        rows = session.rows(
            "SELECT table_name AS c, unique_constraint_schema AS s, referenced_table_name AS p"
            " FROM information_schema.referential_constraints WHERE constraint_schema = %s",
            schema,
        )
        found += [(f"{schema}.{row['c']}", f"{row['s']}.{row['p']}") for row in rows]
    return found


def definitions(session: SinkSession, schemas: Iterable[str]) -> dict[tuple[str, str], int]:
    """A number for each table of these schemas that changes with its columns or engine.

    PyMySQL's errors pass.
    """
    found: dict[tuple[str, str], int] = {}
    for schema in sorted(set(schemas)):
        rows = session.rows(
            "SELECT c.table_name AS n, t.engine AS e, c.column_name, c.column_type,"
            " c.character_set_name, c.is_nullable, c.extra, c.generation_expression"
            " FROM information_schema.columns c JOIN information_schema.tables t"
            " ON t.table_schema = c.table_schema AND t.table_name = c.table_name"
            " WHERE c.table_schema = %s ORDER BY c.table_name, c.ordinal_position",
            schema,
        )
        for row in rows:
            key = (schema, str(row["n"]))
            found[key] = zlib.crc32(repr(tuple(row.values())).encode(), found.get(key, 0))
    return found
