"""The join of definitions: by rule, and on servers, where it takes the rows of all tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cdc.schema import joined as joined_module
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.difference import actions_between
from cdc.schema.joined import join
from cdc.schema.printed import Family, column_text, key_text
from cdc.schema.session import Session
from cdc.schema.table import Column, Table
from tests.seeds import seed
from tests.servers import Database

SESSION = Session(default_schema="s")
ID = "id INT PRIMARY KEY"


def table(columns: str, session: Session = SESSION, name: str = "t") -> Table:
    catalog = Catalog()
    for sql in ("CREATE DATABASE s", f"CREATE TABLE s.{name} ({columns})"):
        catalog = apply(catalog, read_ddl(sql, session))
    found = catalog.table("s", name)
    assert found is not None
    return found


def joined_text(*tables: str) -> str:
    """The join's own text, behind ``id``."""
    found = join([table(f"{ID}, {t}" if t else ID) for t in tables])
    assert not found.conflicts, found.conflicts
    family = Family(mariadb=SESSION.mariadb)
    words = [column_text(c, family) for c in found.table.columns[1:]]
    words += [key_text(i, family) for i in found.table.indexes if not i.primary]
    text = ", ".join(words).replace("`", "")
    return text.replace(" CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci", "")


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (("c INT", ""), "c int(11) NULL"),
        (("c INT NOT NULL", "c INT NOT NULL"), "c int(11) NOT NULL"),
        (("c INT NOT NULL", ""), "c int(11) NOT NULL DEFAULT '0'"),
        (("c INT DEFAULT 7", "", "c INT DEFAULT 7"), "c int(11) NULL DEFAULT '7'"),
        (("c ENUM('x','y') NOT NULL", ""), "c enum('x','y') {} NOT NULL DEFAULT 'x'"),
        (("c SMALLINT", "c BIGINT", "c INT"), "c bigint(20) NULL"),
        (("c TINYBLOB", "c MEDIUMBLOB"), "c mediumblob NULL"),
        (("c VARBINARY(3)", "c VARBINARY(5)"), "c varbinary(5) NULL"),
        (("c DATETIME", "c DATETIME(3)"), "c datetime(3) NULL"),
        (("c INT NOT NULL", "c INT NULL"), "c int(11) NULL"),
        (("c INT DEFAULT 5", "c INT"), "c int(11) NULL DEFAULT '5'"),
        (
            ("a INT, b INT", "a INT, x INT, b INT", "y INT, a INT"),
            "y int(11) NULL, a int(11) NULL, x int(11) NULL, b int(11) NULL",
        ),
        (("c INT, KEY k (c)", "c INT"), "c int(11) NULL"),
        (("c INT, UNIQUE k (c)", "c INT, KEY k (c)"), "c int(11) NULL, KEY k (c)"),
        (("c INT AS (id + 1)", ""), "c int(11) GENERATED ALWAYS AS (id + 1) VIRTUAL"),
    ],
)  # fmt: skip
def test_the_join_takes_the_rows_of_all(tables: tuple[str, ...], expected: str) -> None:
    kept = [text for text in joined_text(*tables).split("{}") if text]
    first, _, rest = expected.partition("{} ")
    assert kept[0].startswith(first)
    assert kept[0].endswith(rest)


@pytest.mark.parametrize(
    ("tables", "part"),
    [
        (("c INT", "c FLOAT"), ("column", "c")),
        (("c INT", "c INT UNSIGNED"), ("column", "c")),
        (("c DECIMAL(5,2)", "c DECIMAL(7,4)"), ("column", "c")),
        (("c BINARY(3)", "c BINARY(5)"), ("column", "c")),
        (("c ENUM('x','y')", "c ENUM('y')"), ("column", "c")),
        (("c INT DEFAULT 0", "c INT DEFAULT -1"), ("column", "c")),
        (("c INT DEFAULT 0", "c INT", ""), ("column", "c")),
        (("c INT NOT NULL", "c INT", ""), ("column", "c")),
        (("c DATE NOT NULL", ""), ("column", "c")),
        (("c JSON NOT NULL", ""), ("column", "c")),
        (("c INT AS (id + 1)", "c INT AS (id + 2)"), ("column", "c")),
        (("c VARCHAR(9) COLLATE utf8mb4_bin", "c VARCHAR(9)"), ("column", "c")),
        (("c INT, KEY k (c)", "c INT, KEY k (c, id)"), ("key", "k")),
    ],
)  # fmt: skip
def test_what_has_no_join_is_named(tables: tuple[str, ...], part: tuple[str, str]) -> None:
    found = join([table(f"{ID}, {t}" if t else ID) for t in tables])
    assert set(found.conflicts) == {part}


def test_a_table_without_the_primary_key_has_no_join_with_one_that_has_it() -> None:
    found = join([table("id INT PRIMARY KEY"), table("id INT NOT NULL")])
    assert set(found.conflicts) == {("key", "primary")}


def test_the_order_of_tables_does_not_matter() -> None:
    tables = [
        table(f"{ID}, {t}") for t in ("a SMALLINT NOT NULL", "b INT, KEY (b)", "a INT NOT NULL")
    ]
    first = join(tables).table
    for n in range(3):
        other = join([*tables[n:], *tables[:n]], like=first).table
        assert (other.columns, other.indexes) == (first.columns, first.indexes)


# On servers: random tables, their join, and their rows in it.

CHOICES: dict[str, Sequence[str]] = {
    "n": ("SMALLINT", "INT", "BIGINT", "INT NOT NULL"),
    "v": ("VARCHAR(5)", "VARCHAR(9)", "VARCHAR(5) CHARACTER SET utf8mb3"),
    "m": ("INT NOT NULL DEFAULT 3", "INT NOT NULL DEFAULT 3", "BIGINT NOT NULL DEFAULT 3"),
    "e": ("ENUM('a','b') NOT NULL", "ENUM('a','b','c') NOT NULL"),
    "d": ("DATETIME", "DATETIME(3)"),
    "x": ("TEXT", "MEDIUMTEXT"),
    "b": ("VARBINARY(4)", "VARBINARY(8)"),
    "q": ("DECIMAL(7,2)", "DECIMAL(7,2) NOT NULL"),
    "t": ("TIME NOT NULL", "TIME(2) NOT NULL"),
}
KEYS = ("UNIQUE u (id, n)", "UNIQUE u (id, n)", "KEY u (id, n)")


def _columns(rng: random.Random) -> dict[str, str]:
    names = [name for name in CHOICES if rng.random() < 0.7]
    rng.shuffle(names)
    return {name: rng.choice(CHOICES[name]) for name in names}


def _text(rng: random.Random, columns: dict[str, str]) -> str:
    words = [ID, *(f"{name} {text}" for name, text in columns.items())]
    if "n" in columns and rng.random() < 0.6:
        words.append(rng.choice(KEYS))
    return ", ".join(words)


def _made(name: str, made: Table, session: Session) -> str:
    family = Family(session.mariadb)
    words = [column_text(c, family) for c in made.columns]
    words += [key_text(i, family) for i in made.indexes]
    return f"CREATE TABLE {name} ({', '.join(words)}) DEFAULT CHARSET utf8mb4"


def _shown(db: Database, schema: str, name: str) -> list[Any]:
    return list(
        db.execute(
            "SELECT column_name, column_type, is_nullable, column_default, collation_name "
            f"FROM information_schema.columns WHERE table_schema = '{schema}' "
            f"AND table_name = '{name}' ORDER BY column_name"
        )
    )


def _compare(db: Database, schema: str, rng: random.Random) -> None:
    """Two tables and their join, which takes the rows of both; the ALTERs on the way to it."""
    version = tuple(int(n) for n in db.execute("SELECT VERSION()")[0][0].split("-")[0].split("."))
    session = Session(mariadb=db.kind == "mariadb", version=version, default_schema="s")
    words = [_columns(rng), _columns(rng)]
    texts = [_text(rng, columns) for columns in words]
    tables = [table(text, session, f"t{i}") for i, text in enumerate(texts)]
    both = join(tables)
    if both.conflicts:
        return
    db.execute(f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema} CHARSET utf8mb4")
    for number, (text, one) in enumerate(zip(texts, tables, strict=True)):
        names = [c.name for c in one.columns]
        db.execute(
            f"CREATE TABLE {schema}.t{number} ({text})", _made(f"{schema}.j{number}", one, session)
        )
        values = {"id": str(number), "n": "30000", "v": "'häßl'", "e": "'b'", "x": "'x'"}
        values |= {"m": "8", "d": "'2024-02-29 11:12:13'", "b": "x'00ff'", "q": "1.25", "t": "'1'"}
        row = ", ".join(values[n] for n in names)
        db.execute(f"INSERT INTO {schema}.t{number} ({', '.join(names)}) VALUES ({row})")
    db.execute(_made(f"{schema}.whole", both.table, session))
    for number, one in enumerate(tables):
        names = ", ".join(c.name for c in one.columns)
        source = f"SELECT {names} FROM {schema}.t{number}"
        db.execute(f"INSERT INTO {schema}.whole ({names}) {source}")
        # What its row has in the other's columns is what adding them there gives it.
        like = join([one], like=both.table).table
        late = actions_between(like, both.table, session, renamed=False)
        if late:
            db.execute(f"ALTER TABLE {schema}.j{number} {', '.join(late)}")
        for name, text in words[1 - number].items():
            if name not in one.positions:
                db.execute(f"ALTER TABLE {schema}.t{number} ADD COLUMN {name} {text}")
        every = ", ".join(c.name for c in both.table.columns)
        rows = db.execute(f"SELECT {every} FROM {schema}.t{number}")
        assert db.execute(f"SELECT {every} FROM {schema}.whole WHERE id = {number}") == rows
        assert _shown(db, schema, f"j{number}") == _shown(db, schema, "whole")


def _joins(db: Database, schema: str, count: int) -> None:
    for number in range(count):
        try:
            _compare(db, schema, random.Random(f"{seed()} {number}"))
        except AssertionError as error:
            raise AssertionError(f"number {number}: {error}") from error


@pytest.mark.real
@pytest.mark.parametrize("server", ["mariadb-11.4", "mysql-8.0"])
def test_a_server_takes_rows_of_both(
    database: Callable[[str], Database], fresh_name: str, server: str
) -> None:
    _joins(database(server), fresh_name, 40)


@pytest.mark.real
def test_control_another_value_for_rows_that_lack_a_column_is_found(
    mysql: Database, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = joined_module._filled

    def wrong(column: Column) -> tuple[str | None, bool]:
        return ("1", False) if column.data_type == "int" else right(column)

    monkeypatch.setattr(joined_module, "_filled", wrong)
    with pytest.raises(AssertionError):
        _joins(mysql, fresh_name, 60)
