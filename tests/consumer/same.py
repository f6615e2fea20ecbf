"""Are the schemas and rows of two servers equal, as their own information_schema has them?"""

from __future__ import annotations

from typing import Any

_COLUMNS = (
    "SELECT TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT,"
    " CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_KEY, EXTRA, COLUMN_COMMENT, GENERATION_EXPRESSION"
    " FROM information_schema.COLUMNS JOIN information_schema.TABLES t"
    " USING (TABLE_SCHEMA, TABLE_NAME)"
    " WHERE TABLE_SCHEMA = %s AND t.TABLE_TYPE <> 'VIEW' ORDER BY 1, 2"
)
_KEYS = (
    "SELECT TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE, SUB_PART, INDEX_TYPE"
    " FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s ORDER BY 1, 2, 3"
)
_TABLES = (
    "SELECT TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COLLATION, TABLE_COMMENT"
    " FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE <> 'VIEW' ORDER BY 1"
)
_PARTITIONS = (
    "SELECT TABLE_NAME, PARTITION_ORDINAL_POSITION, PARTITION_NAME, PARTITION_METHOD,"
    " PARTITION_EXPRESSION, PARTITION_DESCRIPTION"
    " FROM information_schema.PARTITIONS"
    " WHERE TABLE_SCHEMA = %s AND PARTITION_NAME IS NOT NULL ORDER BY 1, 2"
)


def facts(server: Any, schema: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything of a schema that must be equal."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        asked = {"tables": _TABLES, "columns": _COLUMNS, "keys": _KEYS, "partitions": _PARTITIONS}
        for name, sql in asked.items():
            cursor.execute(sql, (schema,))
            found[name] = list(cursor.fetchall())
        for name, kind, *_ in found["tables"]:
            if kind == "BASE TABLE":
                quoted = ".".join("`" + n.replace("`", "``") + "`" for n in (schema, name))
                cursor.execute(f"SELECT * FROM {quoted}")
                found[f"rows of {name}"] = sorted(cursor.fetchall(), key=repr)
    return found


def assert_same(source: Any, target: Any, schema: str) -> None:
    """Both servers have the same tables, columns, keys, partitions and rows in the schema."""
    ours, theirs = facts(source, schema), facts(target, schema)
    for what in ours.keys() | theirs.keys():
        assert theirs.get(what) == ours.get(what), what
