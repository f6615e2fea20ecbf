"""The judge of the demo's filtered changefeed: a message too many or too few is seen."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest

from bench.demo.filtered import Count, Topics, judge
from bench.workload import Committed
from tests.servers import Database

pytestmark = pytest.mark.real

Put = tuple[str, dict[str, object]]


def _row(
    table: str, kind: str, row: dict[str, str], topic: str = "", schema: str = "archive"
) -> Put:
    said = {"database": schema, "table": table, "type": kind, "isDdl": False, "data": [row]}
    return topic or ("few_people" if table == "customers" else f"few_{table}"), said


def _ddl(table: str, kind: str, sql: str) -> Put:
    said = {"database": "archive", "table": table, "type": kind, "isDdl": True, "sql": sql}
    return f"few_{table}", said


GOOD = [
    _row("customers", "INSERT", {"id": "2", "ver": "1"}),
    _row("customers", "INSERT", {"id": "3", "ver": "2"}),
    _row("customers", "UPDATE", {"id": "2", "ver": "3"}),
    _row("tags", "INSERT", {"tag": "a"}),
    _row("tags", "UPDATE", {"tag": "b"}),
    _row("reviews", "INSERT", {"product": "p", "stars": "5"}),
    _ddl("baskets", "ALTER", "ALTER TABLE baskets ADD c INT"),
]


@pytest.fixture(scope="module")
def schema(mariadb: Database) -> Iterator[str]:
    name = f"shop_{secrets.token_hex(4)}"
    mariadb.execute(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.customers (id INT)",
        f"INSERT INTO {name}.customers VALUES (2), (3)",
        f"CREATE TABLE {name}.reviews (product VARCHAR(9), stars INT)",
        f"INSERT INTO {name}.reviews VALUES ('p', 5), ('q', 5), ('p', 2)",
    )
    yield name
    mariadb.execute(f"DROP DATABASE {name}")


def _judged(mariadb: Database, schema: str, messages: list[Put]) -> list[Count]:
    found, committed = Topics(), Committed()
    for topic, said in messages:
        found.add(topic, json.dumps(said).encode())
    committed.add(1, [("customers", 0, 4), ("tags", 0, 2), ("orders", 0, 9)], 15)
    return judge(found, committed, mariadb.connect, schema)


def test_what_the_rules_leave_is_right(mariadb: Database, schema: str) -> None:
    assert all(count.right for count in _judged(mariadb, schema, GOOD))


@pytest.mark.parametrize("at", range(6))
def test_a_message_that_lacks_is_seen(mariadb: Database, schema: str, at: int) -> None:
    counts = _judged(mariadb, schema, GOOD[:at] + GOOD[at + 1 :])
    assert [c.wanted - c.found for c in counts if not c.right] == [1]


@pytest.mark.parametrize(
    "more",
    [
        _row("orders", "INSERT", {"id": "1"}),
        _row("tags", "DELETE", {"tag": "a"}),
        _row("customers", "UPDATE", {"id": "3"}),
        _row("customers", "DELETE", {"id": "2", "name": "x"}),
        _row("reviews", "INSERT", {"product": "q", "stars": "5"}),
        _row("visits", "INSERT", {"day": "1"}, topic="few_people"),
        _row("visits", "INSERT", {"day": "1"}, schema="shop"),
        _ddl("baskets", "TRUNCATE", "TRUNCATE TABLE archive.baskets"),
        _ddl("reviews", "ALTER", "ALTER TABLE archive.reviews DROP COLUMN likes"),
    ],
    ids=lambda put: f"{put[1]['table']} {put[1]['type']} in {put[0]}",
)
def test_a_message_that_should_not_be_there_is_seen(
    mariadb: Database, schema: str, more: Put
) -> None:
    assert not all(count.right for count in _judged(mariadb, schema, [*GOOD, more]))
