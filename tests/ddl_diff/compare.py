"""A table of ours and the same table in ``information_schema``, as comparable values."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

import pymysql

from cdc.schema.charsets import normal_charset, normal_collation
from cdc.schema.table import Column, Generated, Table
from cdc.schema.tokens import unquote
from cdc.schema.types import NUMBERS
from tests.ddl_diff.facts import differing_facts, named_columns, our_facts, server_facts

Values = dict[str, Any]
_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
_BASE = "('BASE TABLE', 'SYSTEM VERSIONED')"
_EXPRESSION = "<expression>"


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


class Server:
    """What the server says; ``cursor`` is of a connection of its own."""

    def __init__(self, cursor: Any, *, mariadb: bool, version: tuple[int, ...]) -> None:
        self._cursor = cursor
        self._mariadb = mariadb
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE "
            "table_schema = 'information_schema' AND table_name = 'STATISTICS'"
        )
        known = {row[0].upper() for row in cursor.fetchall()}
        visible = "IS_VISIBLE" if "IS_VISIBLE" in known else "'YES'"
        if "IGNORED" in known:
            visible = "IF(IGNORED = 'YES', 'NO', 'YES')"
        expression = "EXPRESSION" if "EXPRESSION" in known else "NULL"
        self._statistics = (
            "SELECT index_name, non_unique, column_name, sub_part, collation, index_type, "
            f"{visible}, {expression} FROM information_schema.statistics "
            "WHERE table_schema = %s AND table_name = %s ORDER BY index_name, seq_in_index"
        )
        cursor.execute(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = 'information_schema' "
            "AND table_name = 'COLUMNS' AND column_name = 'GENERATION_EXPRESSION'"
        )
        generation = "generation_expression" if cursor.fetchall() else "NULL"
        srs = "srs_id" if not mariadb and version >= (8, 0) else "NULL"
        self._columns = (
            "SELECT column_name, data_type, column_type, is_nullable, character_set_name, "
            f"collation_name, extra, column_default, column_comment, {srs}, {generation} "
            "FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
        )

    def _rows(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(sql, values or None)
        return [tuple(_text(v) for v in row) for row in self._cursor.fetchall()]

    def tables(self) -> set[tuple[str, str]]:
        """All base tables outside the system's schemas."""
        return {
            (row[0], row[1])
            for row in self._rows(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type "
                f"IN {_BASE} AND table_schema NOT IN {_SYSTEM}"
            )
        }

    def databases(self) -> dict[str, tuple[str, str]]:
        """Databases with their default character set and collation."""
        rows = self._rows(
            "SELECT schema_name, default_character_set_name, default_collation_name "
            f"FROM information_schema.schemata WHERE schema_name NOT IN {_SYSTEM}"
        )
        return {r[0]: (normal_charset(r[1]), normal_collation(r[2])) for r in rows}

    def exists(self, schema: str, name: str) -> bool:
        """Whether there is a base table of this name."""
        return bool(
            self._rows(
                "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND "
                f"table_name = %s AND table_type IN {_BASE}",
                schema,
                name,
            )
        )

    def create_table(self, schema: str, name: str) -> str | None:
        """The text of SHOW CREATE TABLE; None where the server itself cannot open the table."""
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in (schema, name))
        try:
            return str(self._rows(f"SHOW CREATE TABLE {quoted}")[0][1])
        except pymysql.Error:
            return None

    def table(self, schema: str, name: str) -> Values | None:
        """Columns and keys as values; of no columns where there is no such base table.

        None where the server itself cannot open the table (a MERGE of what is no MyISAM).
        """
        if not self.exists(schema, name):
            return {"columns": [], "keys": {}}
        if self.create_table(schema, name) is None:
            return None
        rows = self._rows(self._columns, schema, name)
        names = [row[0] for row in rows]
        columns = [self._column(row, names) for row in rows]
        keys: dict[str, Any] = {}
        for row in self._rows(self._statistics, schema, name):
            index, non_unique, column, prefix, order, kind, visible, expression = row
            special = kind if kind in ("FULLTEXT", "SPATIAL", "VECTOR") else ""
            key = keys.setdefault(
                index,
                {
                    "unique": not int(non_unique),
                    "kind": special,
                    "visible": visible == "YES",
                    "parts": [],
                },
            )
            length = None if special or prefix is None else int(prefix)
            if column == "row_end" and column not in names:
                # MariaDB 10.4 shows the hidden column of system versioning.
                continue
            name_of_part = column if expression is None else ""
            key["parts"].append((name_of_part, length, order == "D"))
        facts = server_facts(self._rows, schema, name, names)
        return {"columns": columns, "keys": keys, "facts": facts}

    def _column(self, row: tuple[Any, ...], names: list[str]) -> Values:
        name, data_type, full, nullable, charset, collation, extra, default, *rest = row
        comment, srs, expression = rest
        extra = (extra or "").lower()
        generated = Generated.NO
        if "virtual generated" in extra:
            generated = Generated.VIRTUAL
        elif "stored generated" in extra or "generated always as row" in extra:
            generated = Generated.STORED
        data_type = data_type.lower().replace("geomcollection", "geometrycollection")
        on_update = None
        if "on update" in extra:
            on_update = _now(extra.split("on update ")[1].split()[0].strip(","))
        value = default
        if data_type in ("enum", "set") and charset is None and (default or "").startswith("0x"):
            # MySQL shows defaults of the character set binary so.
            value = bytes.fromhex(default[2:]).decode()
        elif "default_generated" in extra:
            value = default and (_now(default) or _EXPRESSION)
        elif self._mariadb:
            value = _sql_default(default)
        elif data_type in ("timestamp", "datetime") and default and _now(default):
            value = _now(default)
        return {
            "name": name,
            "data_type": data_type,
            "column_type": _shown_type(full, data_type, charset),
            "nullable": nullable == "YES",
            "charset": charset and normal_charset(charset),
            "collation": collation and normal_collation(collation),
            "generated": str(generated),
            "invisible": "invisible" in extra,
            "auto_increment": "auto_increment" in extra,
            "on_update": on_update,
            "default": None if generated else _normal_default(value, data_type),
            "comment": comment or "",
            "srid": None if srs is None else int(srs),
            "uses": named_columns(expression or "", names) if generated else [],
        }


def _now(text: str | None) -> str | None:
    lowered = (text or "").lower().replace("localtimestamp", "current_timestamp")
    lowered = lowered.replace("localtime", "current_timestamp")
    if not lowered.startswith("current_timestamp"):
        return None
    digits = lowered.removeprefix("current_timestamp").strip("()")
    return f"current_timestamp({digits})"


def _sql_default(text: str | None) -> str | None:
    """MariaDB gives the SQL text of a default."""
    if text is None or text == "NULL":
        return None
    if text.startswith("'") and text.endswith("'"):
        return unquote(text, True)
    if _now(text):
        return _now(text)
    if re.fullmatch(r"[xX]'[0-9A-Fa-f]*'", text):
        return bytes.fromhex(text[2:-1]).decode("latin-1")
    try:
        Decimal(text)
    except InvalidOperation:
        return text if text.startswith("b'") else _EXPRESSION
    return text


def _normal_default(value: str | None, data_type: str) -> Any:
    if value is None or value == _EXPRESSION or value.startswith("current_timestamp("):
        return value
    if data_type in NUMBERS or data_type == "year":
        try:
            return float(value)
        except ValueError:
            return value
    if data_type in ("char", "varchar", "enum", "set", "bit"):
        return value
    # The server rewrites values of the other types in its own form.
    return "<value>"


def ours(table: Table | None) -> Values:
    """Our table as the same values."""
    if table is None:
        return {"columns": [], "keys": {}}
    keys: dict[str, Any] = {}
    for index in table.indexes:
        count = len(index.columns)
        prefixes = index.prefixes or (None,) * count
        descending = index.descending or (False,) * count
        keys[index.name] = {
            "unique": index.unique,
            "kind": index.kind,
            "visible": index.visible,
            "parts": list(zip(index.columns, prefixes, descending, strict=True)),
        }
    names = [c.name for c in table.columns]
    columns = [_our_column(c, names) for c in table.columns]
    return {"columns": columns, "keys": keys, "facts": our_facts(table)}


def _our_column(c: Column, names: list[str]) -> Values:
    default = c.default
    if c.default_expression and default is not None and not _now(default):
        default = _EXPRESSION
    return {
        "name": c.name,
        "data_type": c.data_type,
        "column_type": _shown_type(c.column_type, c.data_type, c.charset),
        "nullable": c.nullable,
        "charset": c.charset,
        "collation": c.collation,
        "generated": str(c.generated),
        "invisible": c.invisible,
        "auto_increment": c.auto_increment,
        "on_update": c.on_update,
        "default": None if c.generated else _normal_default(default, c.data_type),
        "comment": c.comment,
        "srid": c.srid,
        "uses": named_columns(c.expression or "", names),
    }


def _same(key: str, a: Values, b: Values) -> bool:
    """What is one thing in two words: ``a`` is ours, ``b`` the server's."""
    if key == "column_type" and a["data_type"] in ("enum", "set"):
        # CONVERT TO leaves members whose bytes are no text, and each server prints these its way.
        return re.search(r"[(,]x'", a[key]) is not None
    if key in ("charset", "collation"):
        # MySQL shows none for enum and set of the character set binary.
        return a[key] == "binary" and b[key] is None and a["data_type"] in ("enum", "set")
    if key == "default" and a[key] is None and "COMPRESSED" in a["column_type"]:
        # MariaDB shows an empty default that SHOW CREATE TABLE does not.
        return b[key] in ("", "<value>")
    if key == "default" and b[key] == _EXPRESSION and _now(str(a[key])):
        # MariaDB 11.8 writes LOCALTIME in words of its own.
        return True
    # MariaDB folds constant expressions.
    return key == "default" and a[key] == _EXPRESSION and b[key] is not None


def _shown_type(full: str, data_type: str, charset: str | None) -> str:
    # The servers print members in these character sets as bytes that are no text.
    if data_type in ("enum", "set") and charset in ("ucs2", "utf16", "utf16le", "utf32"):
        return data_type
    return full


def differences(mine: Values, theirs: Values | None) -> list[str]:
    """What differs, each as a short line: our value, the server's value."""
    found: list[str] = []
    if theirs is None:
        return found
    names = [[c["name"] for c in side["columns"]] for side in (mine, theirs)]
    if names[0] != names[1]:
        found.append(f"columns: ours {names[0]}, server {names[1]}")
    else:
        for a, b in zip(mine["columns"], theirs["columns"], strict=True):
            found += [
                f"column {a['name']}: {key}: ours {a[key]!r}, server {b[key]!r}"
                for key in a
                if a[key] != b[key] and not _same(key, a, b)
            ]
    for name in sorted({*mine["keys"], *theirs["keys"]}):
        a, b = mine["keys"].get(name), theirs["keys"].get(name)
        if a != b:
            found.append(f"key {name}: ours {a}, server {b}")
    if "facts" in mine and "facts" in theirs:
        found += differing_facts(mine["facts"], theirs["facts"])
    return found
