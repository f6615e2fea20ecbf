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
_FOREIGN_KEYS = (
    "SELECT k.TABLE_NAME, k.CONSTRAINT_NAME, k.ORDINAL_POSITION, k.COLUMN_NAME,"
    " k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME,"
    " r.UPDATE_RULE, r.DELETE_RULE"
    " FROM information_schema.KEY_COLUMN_USAGE k"
    " JOIN information_schema.REFERENTIAL_CONSTRAINTS r"
    " ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME"
    " AND r.TABLE_NAME = k.TABLE_NAME"
    " WHERE k.TABLE_SCHEMA = %s AND k.REFERENCED_TABLE_NAME IS NOT NULL ORDER BY 1, 2, 3"
)
# Of MariaDB a name is a table's own, of MySQL a schema's, and the table stands elsewhere.
_CHECKS = {
    "mariadb": (
        "SELECT TABLE_NAME, CONSTRAINT_NAME, CHECK_CLAUSE, LEVEL"
        " FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s ORDER BY 1, 2"
    ),
    "mysql": (
        "SELECT t.TABLE_NAME, c.CONSTRAINT_NAME, c.CHECK_CLAUSE, t.ENFORCED"
        " FROM information_schema.CHECK_CONSTRAINTS c"
        " JOIN information_schema.TABLE_CONSTRAINTS t"
        " ON t.CONSTRAINT_SCHEMA = c.CONSTRAINT_SCHEMA AND t.CONSTRAINT_NAME = c.CONSTRAINT_NAME"
        " AND t.CONSTRAINT_TYPE = 'CHECK'"
        " WHERE c.CONSTRAINT_SCHEMA = %s ORDER BY 1, 2"
    ),
}
_HAS_CHECKS = (
    "SELECT COUNT(*) FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = 'CHECK_CONSTRAINTS'"
)
# A system-versioned table's rows have the times at which each server wrote them.
_OF_THE_SERVER = ("STORED GENERATED ROW", "VERSIONING")


def facts(server: Any, schema: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything of a schema that must be equal."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        asked = {
            "tables": _TABLES,
            "columns": _COLUMNS,
            "keys": _KEYS,
            "partitions": _PARTITIONS,
            "foreign keys": _FOREIGN_KEYS,
        }
        cursor.execute(_HAS_CHECKS)
        if cursor.fetchone()[0]:
            asked["checks"] = _CHECKS[server.kind]
        for name, sql in asked.items():
            cursor.execute(sql, (schema,))
            found[name] = list(cursor.fetchall())
        for name, kind, *_ in found["tables"]:
            if kind in ("BASE TABLE", "SYSTEM VERSIONED"):
                columns = [c for c in found["columns"] if c[0] == name]
                found[f"rows of {name}"] = _rows(cursor, schema, name, columns)
    return found


def _rows(
    cursor: Any, schema: str, table: str, columns: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """All rows; columns are named, as ``*`` leaves out those that are invisible."""
    named = [c[2] for c in columns if not any(word in str(c[9]) for word in _OF_THE_SERVER)]
    listed = ", ".join(map(_quoted, named))
    cursor.execute(f"SELECT {listed} FROM {_quoted(schema)}.{_quoted(table)}")
    return sorted(cursor.fetchall(), key=repr)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def assert_same(source: Any, target: Any, schema: str) -> None:
    """Both servers have the same tables, columns, keys, constraints, partitions and rows."""
    ours, theirs = facts(source, schema), facts(target, schema)
    for what in ours.keys() | theirs.keys():
        assert theirs.get(what) == ours.get(what), what
