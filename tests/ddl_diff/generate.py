"""Random DDL from a grammar, by seed; most of it is such that a server accepts it.

What exists is looked up in the catalog of the run, so the statements depend on what the server
has accepted so far; the same seed on the same server version gives the same statements.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from cdc.schema.catalog import Catalog
from cdc.schema.table import Column, Table

_SCHEMAS = ("ddl_diff", "ddl_two")
_CHARSETS = ("utf8mb4", "latin1", "utf8mb3", "utf8", "gbk", "ascii", "utf16", "cp1251", "binary")
_COLLATIONS = (
    "utf8mb4_bin",
    "utf8mb4_unicode_ci",
    "latin1_bin",
    "utf8_general_ci",
    "latin1_german1_ci",
)
_INTEGERS = (
    "int", "INTEGER", "tinyint", "smallint", "mediumint", "bigint", "int(5)", "tinyint(1)",
    "bigint unsigned", "INT2", "int4 unsigned zerofill", "INT8", "smallint(4) zerofill",
    "middleint", "bool", "boolean",
)  # fmt: skip
_NUMBERS = (
    "decimal", "decimal(10,2)", "dec(5)", "numeric(12,4) unsigned", "fixed(4,1)", "float", "double",
    "float(7,3)", "float(20)", "float(30)", "double precision", "real", "double(8,2) unsigned",
    "float unsigned", "decimal(20,10) zerofill", "bit", "bit(9)", "year", "year(4)",
)  # fmt: skip
_TIMES = (
    "date",
    "time",
    "time(3)",
    "datetime",
    "datetime(6)",
    "timestamp NULL",
    "timestamp(2) NULL",
)
_STRINGS = (
    "char", "char(10)", "CHARACTER(5)", "varchar(20)", "varchar(300)", "character varying(7)",
    "national varchar(9)", "nchar(4)", "nvarchar(6)", "text", "tinytext", "mediumtext", "longtext",
    "text(50)", "text(400)", "text(90000)", "long", "long varchar", "enum('a','b','c')",
    "enum('x','y''z','ü ')", "set('p','q','r')", "varchar(1)", "char(0)", "varchar(2000)",
)  # fmt: skip
_BINARIES = (
    "binary", "binary(8)", "varbinary(40)", "blob", "tinyblob", "mediumblob", "longblob",
    "blob(20)", "blob(70000)", "long varbinary", "char(5) byte",
)  # fmt: skip
_OTHERS = ("json", "geometry", "point", "polygon")
_MARIADB = (
    "uuid",
    "inet6",
    "inet4",
    "varchar(50) COMPRESSED",
    "text COMPRESSED",
    "varchar2(9)",
    "clob",
)


class Generator:
    """``next(catalog)`` is the next statement."""

    def __init__(self, seed: int, *, mariadb: bool) -> None:
        self._random = random.Random(seed)
        self._mariadb = mariadb
        self._number = 0

    def _pick(self, *values: str) -> str:
        return self._random.choice(values)

    def _maybe(self, text: str, chance: float = 0.3) -> str:
        return text if self._random.random() < chance else ""

    def _new(self, stem: str) -> str:
        self._number += 1
        name = f"{stem}{self._number}"
        if self._random.random() < 0.1:
            return f"`{name.upper()} {self._pick('x', 'ü', '``', 'key')}`"
        return f"`{name}`" if self._random.random() < 0.3 else name

    def _name(self, name: str) -> str:
        quoted = "`" + name.replace("`", "``") + "`"
        return quoted if not name.isidentifier() or self._random.random() < 0.5 else name

    def _tables(self, catalog: Catalog) -> list[Table]:
        keys = sorted(key for key in catalog if key[0] in _SCHEMAS)
        return [table for key in keys if (table := catalog.table(*key)) is not None]

    def _full(self, table: Table) -> str:
        if table.schema == _SCHEMAS[0] and self._random.random() < 0.7:
            return self._name(table.name)
        return f"{table.schema}.{self._name(table.name)}"

    def next(self, catalog: Catalog) -> str:
        """A statement that fits what there is."""
        tables = self._tables(catalog)
        if len(tables) < 4:
            return self._create()
        roll = self._random.random()
        if roll < 0.68:
            return self._alter(self._random.choice(tables))
        choices: list[tuple[float, Callable[[], str]]] = [
            (0.80, self._create),
            (0.83, lambda: self._like(self._random.choice(tables))),
            (0.86, lambda: self._rename(tables)),
            (0.92, lambda: self._create_index(self._random.choice(tables))),
            (0.94, lambda: self._drop_index(self._random.choice(tables))),
            (0.97, lambda: self._drop(tables)),
            (
                0.98,
                lambda: (
                    f"TRUNCATE {self._maybe('TABLE ')}{self._full(self._random.choice(tables))}"
                ),
            ),
            (0.99, self._database),
        ]
        for bound, make in choices:
            if roll < bound:
                return make()
        return self._session()

    def _type(self) -> str:
        groups = [_INTEGERS, _INTEGERS, _NUMBERS, _TIMES, _STRINGS, _STRINGS, _BINARIES, _OTHERS]
        if self._mariadb:
            groups.append(_MARIADB)
        return self._pick(*self._random.choice(groups))

    def _definition(self) -> str:
        kind = self._type()
        text = kind
        if kind in _STRINGS and "national" not in kind and not kind.startswith(("n", "long")):
            text += self._pick(
                "", "", "", f" CHARACTER SET {self._pick(*_CHARSETS)}",
                f" COLLATE {self._pick(*_COLLATIONS)}", " BINARY",
                " CHARSET latin1 COLLATE latin1_bin",
            )  # fmt: skip
        if self._random.random() < 0.06 and kind in _INTEGERS:
            kept = self._pick("VIRTUAL", "STORED", "")
            return f"{text} {self._maybe('GENERATED ALWAYS ')}AS (1 + 2) {kept}"
        if "NULL" not in text:
            text += self._pick("", "", "", " NOT NULL", " NULL")
        if self._random.random() < 0.35:
            text += self._default(kind, nullable="NOT NULL" not in text)
        text += self._maybe(f" COMMENT '{self._pick('c', 'its', 'a,b)')}'", 0.1)
        text += self._maybe(" INVISIBLE", 0.04)
        return text + self._maybe(" UNIQUE", 0.04)

    def _default(self, kind: str, *, nullable: bool) -> str:
        if nullable and self._random.random() < 0.2:
            return " DEFAULT NULL"
        if kind in _INTEGERS and "bool" not in kind:
            return f" DEFAULT {self._pick('0', '1', chr(39) + '7' + chr(39), '5')}"
        if kind.startswith(("dec", "num", "fix", "float", "double", "real")):
            return f" DEFAULT {self._pick('0', '1.5', '2')}"
        if kind.startswith(("datetime", "timestamp")):
            digits = kind.split("(")[1].split(")")[0] if "(" in kind else ""
            now = f"{self._pick('CURRENT_TIMESTAMP', 'NOW', 'LOCALTIME')}({digits})"
            return f" DEFAULT {now}{self._maybe(f' ON UPDATE CURRENT_TIMESTAMP({digits})')}"
        if kind.startswith(("varchar(2", "varchar(3", "char(10", "character")):
            return self._pick(" DEFAULT ''", " DEFAULT 'a'", ' DEFAULT "b"')
        if kind.startswith("enum('a"):
            return " DEFAULT 'b'"
        return ""

    def _parts(self, columns: list[Column], most: int = 3) -> str:
        usable = [c for c in columns if not c.data_type.startswith(("json", "geo", "poi", "poly"))]
        if not usable:
            return ""
        parts = []
        for c in self._random.sample(usable, min(len(usable), self._random.randint(1, most))):
            text = self._name(c.name)
            long = c.data_type.endswith(("text", "blob"))
            length = (c.length or 0) if c.data_type in ("varchar", "char") else 0
            if long or length > 100 or (length > 9 and self._random.random() < 0.3):
                text += f"({self._random.randint(1, 9)})"
            parts.append(text + self._maybe(" DESC", 0.1))
        return "(" + ", ".join(parts) + ")"

    def _key(self, columns: list[Column]) -> str:
        parts = self._parts(columns)
        if not parts:
            return ""
        name = self._pick("", self._new("k"), self._new("k"))
        if not self._mariadb and self._random.random() < 0.08:
            parts = f"(({self._name(columns[0].name)} IS NULL))"
        kind = self._pick("KEY", "INDEX", "UNIQUE", "UNIQUE KEY", "UNIQUE INDEX", "KEY")
        tail = self._maybe(" USING BTREE", 0.1) + self._maybe(" COMMENT 'k'", 0.1)
        return f"{kind} {name} {parts}{tail}"

    def _options(self) -> str:
        return " ".join(
            option
            for option in (
                self._maybe(f"DEFAULT CHARSET={self._pick(*_CHARSETS)}"),
                self._maybe("ENGINE=InnoDB"),
                self._maybe("COMMENT='t'", 0.1),
                self._maybe("ROW_FORMAT=DYNAMIC", 0.1),
            )
            if option
        )

    def _create(self) -> str:
        names = [self._new("c") for _ in range(self._random.randint(1, 8))]
        lines = [f"{name} {self._definition()}" for name in names]
        id_name = self._new("id")
        lines.insert(
            0,
            f"{id_name} {self._pick('int', 'bigint unsigned')} "
            f"{self._pick('NOT NULL', 'AUTO_INCREMENT', '')}",
        )
        roll = self._random.random()
        if roll < 0.2:
            lines[0] = f"{id_name} serial"
        elif roll < 0.9 or "AUTO" in lines[0]:
            lines.append(f"{self._maybe('CONSTRAINT pk ')}PRIMARY KEY ({id_name})")
        tail = (
            self._maybe(f" PARTITION BY HASH ({id_name}) PARTITIONS 2", 0.06) if roll >= 0.2 else ""
        )
        head = self._pick(
            "CREATE TABLE", "CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "create table"
        )
        if self._mariadb and self._random.random() < 0.1:
            head = "CREATE OR REPLACE TABLE"
        schema = self._pick("", "", "ddl_two.")
        body = ", ".join(lines)
        return f"{head} {schema}{self._new('t')} ({body}) {self._options()}{tail}"

    def _like(self, table: Table) -> str:
        return f"CREATE TABLE {self._new('t')} LIKE {self._full(table)}"

    def _rename(self, tables: list[Table]) -> str:
        if len(tables) > 2 and self._random.random() < 0.5:
            a, b = (f"{t.schema}.{self._name(t.name)}" for t in self._random.sample(tables, 2))
            swap = f"ddl_diff.{self._new('swap')}"
            return f"RENAME TABLE {a} TO {swap}, {b} TO {a}, {swap} TO {b}"
        table = self._random.choice(tables)
        return f"RENAME TABLE {self._full(table)} TO {self._pick(*_SCHEMAS)}.{self._new('t')}"

    def _create_index(self, table: Table) -> str:
        parts = self._parts(list(table.columns))
        kind = self._pick("", "", "UNIQUE ")
        tail = self._maybe(" ALGORITHM=INPLACE", 0.1)
        return f"CREATE {kind}INDEX {self._new('i')} ON {self._full(table)} {parts}{tail}"

    def _drop_index(self, table: Table) -> str:
        names = [i.name for i in table.indexes if not i.primary] or ["nothing"]
        return f"DROP INDEX {self._name(self._random.choice(names))} ON {self._full(table)}"

    def _drop(self, tables: list[Table]) -> str:
        names = [self._full(t) for t in self._random.sample(tables, self._random.randint(1, 2))]
        return f"DROP TABLE {self._maybe('IF EXISTS ')}{', '.join(names)}"

    def _database(self) -> str:
        what = self._pick(
            f"CHARACTER SET {self._pick(*_CHARSETS[:4])}", f"COLLATE {self._pick(*_COLLATIONS)}"
        )
        return f"ALTER DATABASE {self._pick(*_SCHEMAS)} {what}"

    def _session(self) -> str:
        mode = self._pick("'STRICT_TRANS_TABLES'", "default", "'ANSI'", "''", "'STRICT_ALL_TABLES'")
        if mode == "'ANSI'":
            # Identifiers are quoted with backticks throughout, and strings with ' or ".
            mode = "'STRICT_TRANS_TABLES,REAL_AS_FLOAT'"
        return f"SET sql_mode = {mode}"

    def _alter(self, table: Table) -> str:
        count = self._random.choice((1, 1, 1, 2, 2, 3, 4))
        used: set[str] = set()
        actions = [a for _ in range(count) if (a := self._action(table, used))]
        if not actions:
            actions = [f"ADD COLUMN {self._new('c')} int"]
        head = self._pick("ALTER TABLE", "ALTER TABLE", "alter table")
        if self._mariadb and "rename" not in used:
            head += self._maybe(" IF EXISTS", 0.05)
        return f"{head} {self._full(table)} {', '.join(actions)}"

    def _free(self, table: Table, used: set[str]) -> Column | None:
        columns = [c for c in table.columns if c.name not in used]
        if not columns:
            return None
        column = self._random.choice(columns)
        used.add(column.name)
        return column

    def _place(self, table: Table, used: set[str]) -> str:
        steady = [c.name for c in table.columns if c.name not in used]
        if not steady or self._random.random() < 0.6:
            return ""
        return self._pick(" FIRST", f" AFTER {self._name(self._random.choice(steady))}")

    def _action(self, table: Table, used: set[str]) -> str:
        roll = self._random.random()
        if roll < 0.28:
            guard = self._maybe("IF NOT EXISTS ", 0.1) if self._mariadb else ""
            return (
                f"ADD {self._maybe('COLUMN ', 0.6)}{guard}{self._new('c')} {self._definition()}"
                f"{self._place(table, used)}"
            )
        if roll < 0.32:
            two = f"{self._new('c')} {self._definition()}, {self._new('c')} {self._definition()}"
            return f"ADD {self._maybe('COLUMN ')}({two})"
        if roll < 0.44:
            return self._drop_action(table, used)
        if roll < 0.70:
            return self._column_action(table, used, roll)
        if roll < 0.84:
            key = self._key([c for c in table.columns if c.name not in used])
            return f"ADD {key}" if key else ""
        return self._other_action(table, used)

    def _drop_action(self, table: Table, used: set[str]) -> str:
        names = [i.name for i in table.indexes if not i.primary and i.name not in used]
        if names and self._random.random() < 0.5:
            name = self._random.choice(names)
            used.add(name)
            return f"DROP {self._pick('INDEX', 'KEY')} {self._name(name)}"
        column = self._free(table, used)
        if column is None or len(table.columns) < 4:
            return ""
        return f"DROP {self._maybe('COLUMN ', 0.6)}{self._name(column.name)}"

    def _column_action(self, table: Table, used: set[str], roll: float) -> str:
        column = self._free(table, used)
        if column is None:
            return ""
        name = self._name(column.name)
        # Most types convert into text; an empty table takes any, but keys restrict it.
        keyed = any(column.name in i.columns for i in table.indexes)
        definition = (
            self._pick("bigint", "varchar(30)", "int NOT NULL") if keyed else self._definition()
        )
        if roll < 0.53:
            return f"MODIFY {self._maybe('COLUMN ')}{name} {definition}{self._place(table, used)}"
        if roll < 0.61:
            new = self._pick(name, self._new("c"))
            place = self._place(table, used)
            return f"CHANGE {self._maybe('COLUMN ')}{name} {new} {definition}{place}"
        if roll < 0.65:
            return f"RENAME COLUMN {name} TO {self._new('c')}"
        if roll < 0.67:
            return f"ALTER {self._maybe('COLUMN ')}{name} DROP DEFAULT"
        value = {"int": "5", "varchar": "'v'", "bigint": "-7", "char": "'c'"}.get(column.data_type)
        return f"ALTER {self._maybe('COLUMN ')}{name} SET DEFAULT {value}" if value else ""

    def _other_action(self, table: Table, used: set[str]) -> str:
        names = [i.name for i in table.indexes if not i.primary and i.name not in used]
        options = [
            f"DEFAULT CHARACTER SET {self._pick(*_CHARSETS)}",
            f"CONVERT TO CHARACTER SET {self._pick(*_CHARSETS[:-1])}",
            f"CONVERT TO CHARACTER SET utf8mb4 COLLATE {self._pick(*_COLLATIONS[:2])}",
            f"COMMENT '{self._pick('x', 'y')}'",
            "ENGINE=InnoDB",
            "FORCE",
            f"COLLATE {self._pick(*_COLLATIONS)}",
            f"ADD CHECK ({self._name(table.columns[0].name)} IS NOT NULL)",
        ]
        if names:
            name = self._random.choice(names)
            used.add(name)
            options.append(
                f"RENAME {self._pick('INDEX', 'KEY')} {self._name(name)} TO {self._new('k')}"
            )
            shown = (
                self._pick("IGNORED", "NOT IGNORED")
                if self._mariadb
                else self._pick("VISIBLE", "INVISIBLE")
            )
            options.append(f"ALTER INDEX {self._name(name)} {shown}")
        if "auto" not in used and any(i.primary for i in table.indexes):
            options.append("DROP PRIMARY KEY")
        else:
            options.append(f"ADD PRIMARY KEY {self._parts(list(table.columns), 2)}")
        if table.partitioning:
            options.append("REMOVE PARTITIONING")
        # MariaDB 11.4.5 leaves the old table behind where a key of a whole TEXT is in the way.
        hashed = self._mariadb and any(
            index.unique and not index.primary and not index.prefixes for index in table.indexes
        )
        # And where the old name is none of plain letters, and a type changes with it.
        odd = self._mariadb and not (table.name.isascii() and table.name.isidentifier())
        if "rename" not in used and not hashed and not odd:
            options.append(f"RENAME {self._pick('', 'TO ', 'AS ')}{self._new('t')}")
        chosen = self._random.choice(options)
        if chosen == options[-1]:
            used.add("rename")
        return chosen
