"""The judge of two servers: it must see each thing in which they can differ."""

from __future__ import annotations

import pytest

from tests.consumer.same import facts
from tests.servers import Database

pytestmark = pytest.mark.real

_PARENT = "CREATE TABLE p (id INT PRIMARY KEY, v INT, CHECK (v > 0))"
_CHILD = (
    "CREATE TABLE c (id INT PRIMARY KEY, r INT, CONSTRAINT fk FOREIGN KEY (r) REFERENCES p (id)"
    " ON DELETE SET NULL)"
)
_COMMON = {
    "ALTER TABLE c DROP FOREIGN KEY fk": "foreign keys",
    "ALTER TABLE c ADD FOREIGN KEY (r) REFERENCES p (id) ON UPDATE CASCADE": "foreign keys",
    "ALTER TABLE p ADD CONSTRAINT ck2 CHECK (v < 9)": "checks",
    "UPDATE p SET v = 2": "rows of p",
    "ALTER TABLE p ALTER v SET DEFAULT 3": "columns",
    "CREATE INDEX i ON p (v)": "keys",
}
_MARIADB = {
    "UPDATE hidden SET h = 2": "rows of hidden",
    "UPDATE old SET v = 2": "rows of old",
    "UPDATE times SET v = 2": "rows of times",
}
_MADE_MARIADB = (
    "CREATE TABLE hidden (id INT PRIMARY KEY, h INT INVISIBLE)",
    "INSERT INTO hidden (id, h) VALUES (1, 1)",
    "CREATE TABLE old (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
    "INSERT INTO old VALUES (1, 1)",
    "CREATE TABLE times (id INT PRIMARY KEY, v INT, a TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
    " b TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (a, b))"
    " WITH SYSTEM VERSIONING",
    "INSERT INTO times (id, v) VALUES (1, 1)",
)


def _differs(server: Database, schema: str, statement: str) -> set[str]:
    """What ``facts`` tells apart: before a statement, and after it."""
    before = facts(server, schema)
    server.execute(statement, database=schema)
    after = facts(server, schema)
    return {what for what in before.keys() | after.keys() if before.get(what) != after.get(what)}


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_each_difference_is_seen(
    kind: str, request: pytest.FixtureRequest, schema_name: str
) -> None:
    server: Database = request.getfixturevalue(kind)
    statements = _COMMON | (_MARIADB if kind == "mariadb" else {})
    server.execute(f"CREATE DATABASE {schema_name}")
    server.execute(
        _PARENT,
        _CHILD,
        "INSERT INTO p VALUES (1, 1)",
        *(_MADE_MARIADB if kind == "mariadb" else ()),
        database=schema_name,
    )
    for statement, wanted in statements.items():
        assert wanted in _differs(server, schema_name, statement), statement
