"""A table of ours and the same table in ``information_schema``, as comparable values."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

import pymysql

from cdc.schema.indexes import GEOMETRY_LENGTH_BYTES
from cdc.schema.table import Column, Generated, Table
from cdc.schema.types import GEOMETRIES
from tests.ddl_diff.facts import (
    differing_facts,
    named_columns,
    newer_name,
    our_facts,
    server_facts,
)

Values = dict[str, Any]
_NUMBERS = "tinyint smallint mediumint int bigint decimal float double year".split()
# A scratch-pad of these tests.
SCRATCH = "ddl_diff_words"
_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys", SCRATCH)
_BASE = "('BASE TABLE', 'SYSTEM VERSIONED')"
_EXPRESSION = "<expression>"
# ALTER TABLE with a new name for the table, and at least one action more. Where MariaDB copies the
# table for it, its foreign keys are lost.
ALTERED_AND_RENAMED = re.compile(
    r"ALTER\b(?=.*,).*\bRENAME\s(?!\s*(?:COLUMN|INDEX|KEY)\b)", re.IGNORECASE | re.DOTALL
)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


class Server:
    """What the server says; ``cursor`` is of a connection of its own."""

    def __init__(self, cursor: Any, *, mariadb: bool, version: tuple[int, ...]) -> None:
        self._cursor = cursor
        self._mariadb = mariadb
        # MariaDB 11.4 does not yet show LOCALTIME in words of its own, 11.8 does.
        self.names_local_time = mariadb and version >= (11, 5)
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
        cursor.execute(
            "SELECT engine FROM information_schema.engines WHERE support IN ('YES', 'DEFAULT')"
        )
        self.engines = {row[0].lower() for row in cursor.fetchall()}
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
        return {r[0]: (newer_name(r[1]), newer_name(r[2])) for r in rows}

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

    def words(self, schema: str, name: str) -> dict[str, tuple[Any, Any]]:
        """Default and expression of each column, in the server's own words."""
        rows = self._rows(self._columns, schema, name)
        return {row[0]: (row[7], row[10] or None) for row in rows}

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
        geometries = {row[0] for row in rows if self._mariadb and row[1].lower() in GEOMETRIES}
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
            if prefix is None and column in geometries:
                prefix = GEOMETRY_LENGTH_BYTES  # It shows none for this one.
            length = None if special or prefix is None else int(prefix)
            if column == "row_end" and column not in names:
                # MariaDB 10.4 shows the hidden column of system versioning.
                continue
            name_of_part = column if expression is None else ""
            # MariaDB does not show which way the parts of a hash go, and has not forgotten it.
            descends = None if kind == "HASH" else order == "D"
            key["parts"].append((name_of_part, length, descends))
        facts = server_facts(self._rows, schema, name, names)
        facts["periods"] = _periods(self.create_table(schema, name) or "")
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
            "charset": charset and newer_name(charset),
            "collation": collation and newer_name(collation),
            "generated": str(generated),
            "invisible": "invisible" in extra,
            "auto_increment": "auto_increment" in extra,
            "on_update": on_update,
            "default": None if generated else _normal_default(value, data_type),
            "comment": comment or "",
            "srid": None if srs is None else int(srs),
            "uses": named_columns(expression or "", names) if generated else [],
        }


def _periods(text: str) -> list[tuple[str, str]]:
    found = re.findall(r"PERIOD FOR .*\(`(.+)`, `(.+)`\)", text)
    return sorted((a.lower(), b.lower()) for a, b in found)


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
        return _unquoted(text)
    if _now(text):
        return _now(text)
    if re.fullmatch(r"[xX]'[0-9A-Fa-f]*'|0x[0-9A-Fa-f]*", text):
        return bytes.fromhex(text[2:].rstrip("'")).decode("latin-1")
    try:
        Decimal(text)
    except InvalidOperation:
        return text if text.startswith("b'") else _EXPRESSION
    return text


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}


def _unquoted(text: str) -> str:
    """The value of a literal as information_schema prints it."""
    return re.sub(
        r"\\(.)|''",
        lambda m: _ESCAPES.get(m[1], m[1]) if m[1] else "'",
        text[1:-1],
        flags=re.DOTALL,
    )


def _normal_default(value: str | None, data_type: str) -> Any:
    if value is None or value == _EXPRESSION or value.startswith("current_timestamp("):
        return value
    if data_type in _NUMBERS:
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


def _same_key(a: Values | None, b: Values | None) -> bool:
    """Whether two keys differ only in directions that the server (``b``) does not show."""
    if a is None or b is None or len(a["parts"]) != len(b["parts"]):
        return False
    pairs = zip(a["parts"], b["parts"], strict=True)
    return {**a, "parts": 0} == {**b, "parts": 0} and all(
        x[:2] == y[:2] and y[2] in (x[2], None) for x, y in pairs
    )


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
        if not _same_key(a, b):
            found.append(f"key {name}: ours {a}, server {b}")
    if "facts" in mine and "facts" in theirs:
        found += differing_facts(mine["facts"], theirs["facts"])
    return found
