"""SHOW CREATE TABLE read by us = information_schema of the server that printed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.schema.parse import parse_create_table
from cdc.schema.table import Generated, Table
from cdc.schema.tokens import Session

_TABLES = (Path(__file__).parent / "tables.sql").read_text().strip().split(";\n")
_MARIADB = [
    "CREATE TABLE t_uuid (a uuid NOT NULL, b inet6, c inet4, PRIMARY KEY (a))",
    "CREATE TABLE t_ver (a int PRIMARY KEY, b int) WITH SYSTEM VERSIONING",
    "CREATE TABLE t_ver2 (a int, rs timestamp(6) GENERATED ALWAYS AS ROW START INVISIBLE, "
    "re timestamp(6) GENERATED ALWAYS AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME (rs, re)) "
    "WITH SYSTEM VERSIONING",
    "CREATE TABLE t_comp (a int, b text COMPRESSED, c varchar(100) COMPRESSED)",
    "CREATE TABLE t_without (a int, s date, e date, PERIOD FOR p (s, e), "
    "PRIMARY KEY (a, p WITHOUT OVERLAPS))",
]
_MYSQL = [
    "CREATE TABLE t_func (a int, b varchar(10), j json, PRIMARY KEY (a), KEY f ((lower(b))), "
    "KEY m ((cast(j->'$.x' as unsigned array))))",
    "CREATE TABLE t_srid (g point NOT NULL SRID 4326, SPATIAL KEY (g))",
    "CREATE TABLE t_notnull (k int PRIMARY KEY, a int NOT NULL, UNIQUE KEY (a) INVISIBLE)",
]


def _expected(cursor: Any, schema: str, name: str) -> list[tuple[Any, ...]]:
    cursor.execute(
        "SELECT column_name, data_type, column_type, is_nullable, character_set_name, "
        "collation_name, extra FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        (schema, name),
    )
    rows = []
    for column, data_type, column_type, nullable, charset, collation, extra in cursor.fetchall():
        text = column_type if isinstance(column_type, str) else column_type.decode()
        extra = extra.upper()
        generated = Generated.NO
        if "VIRTUAL GENERATED" in extra:
            generated = Generated.VIRTUAL
        elif "STORED GENERATED" in extra or "GENERATED ALWAYS AS ROW" in extra:
            generated = Generated.STORED
        rows.append(
            (
                column,
                data_type.lower().replace("geomcollection", "geometrycollection"),
                "unsigned" in text and data_type.lower() not in ("enum", "set"),
                nullable == "YES",
                charset,
                collation,
                generated,
                "INVISIBLE" in extra,
            )
        )
    return rows


def _ours(table: Table, expected: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        (
            c.name,
            c.data_type,
            c.unsigned,
            c.nullable,
            c.charset,
            # SHOW CREATE TABLE leaves a character set's default collation out
            c.collation or want[5],
            c.generated,
            c.invisible,
        )
        for c, want in zip(table.columns, expected, strict=True)
    ]


def _keys(cursor: Any, schema: str, name: str) -> dict[str, tuple[bool, tuple[str, ...]]]:
    cursor.execute(
        "SELECT index_name, non_unique, column_name FROM information_schema.statistics "
        "WHERE table_schema = %s AND table_name = %s ORDER BY index_name, seq_in_index",
        (schema, name),
    )
    keys: dict[str, tuple[bool, tuple[str, ...]]] = {}
    for index, non_unique, column in cursor.fetchall():
        unique, columns = keys.get(index, (not int(non_unique), ()))
        keys[index] = (unique, (*columns, column or ""))
    return keys


def _foreign_keys(cursor: Any, schema: str, name: str) -> list[str]:
    cursor.execute(
        "SELECT constraint_name FROM information_schema.table_constraints"
        " WHERE table_schema = %s AND table_name = %s AND constraint_type = 'FOREIGN KEY'",
        (schema, name),
    )
    return sorted(row[0] for row in cursor.fetchall())


@pytest.mark.real
@pytest.mark.parametrize("server", ["mariadb-10.11", "mariadb-11.4", "mysql-8.0", "mysql-9.7"])
def test_show_create_table_is_understood_as_the_server_means_it(server: str, database: Any) -> None:
    db = database(server)
    session = Session(mariadb=db.kind == "mariadb", version=(*db.version, 0, 0)[:3])
    schema = f"parse_{server.replace('-', '_').replace('.', '_')}"
    connection = db.connect()
    cursor = connection.cursor()
    cursor.execute(f"DROP DATABASE IF EXISTS {schema}")
    cursor.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    cursor.execute(f"USE {schema}")
    cursor.execute("SET sql_mode = ''")
    for sql in _TABLES + (_MARIADB if db.kind == "mariadb" else _MYSQL):
        try:
            cursor.execute(sql.strip().rstrip(";"))
        except Exception as e:
            raise AssertionError(f"{server}: {sql}: {e}") from e
    cursor.execute("SHOW TABLES")
    names = [row[0] for row in cursor.fetchall()]
    different = []
    for name in names:
        cursor.execute("SHOW CREATE TABLE `" + name.replace("`", "``") + "`")
        table = parse_create_table(cursor.fetchone()[1], session, schema=schema, printed=True)
        want = _expected(cursor, schema, name)
        if _ours(table, want) != want:
            different += [
                (name, a, b) for a, b in zip(_ours(table, want), want, strict=False) if a != b
            ] or [(name, len(table.columns), len(want))]
        ours = {i.name: (i.unique, i.columns) for i in table.indexes}
        theirs = _keys(cursor, schema, name)
        if ours != theirs:
            different.append((name, ours, theirs))
        if sorted(table.foreign_keys) != (named := _foreign_keys(cursor, schema, name)):
            different.append((name, table.foreign_keys, named))
    connection.close()
    assert different == [], str(different)
    assert len(names) >= len(_TABLES)
