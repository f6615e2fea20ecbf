"""The changefeed with rules of all kinds, and what its topics must hold by them: counted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from bench.workload import Committed, Connect
from tests.e2e import topics

PREFIX = "few_"
CONFIG = """
[filter]
rules = ["shop.*", "!shop.order*", "!/^shop$/./^all_/"]

[[filter.event-filters]]
matcher = ["shop.tags"]
ignore-event = ["delete"]

[[filter.event-filters]]
matcher = ["shop.customers"]
ignore-update-new-value-expr = "id % 2 = 1"

[[filter.event-filters]]
matcher = ["shop.reviews"]
ignore-insert-value-expr = "stars < 3 OR product LIKE 'Q%'"

[[filter.event-filters]]
matcher = ["shop.baskets"]
ignore-event = ["truncate table"]

[[filter.event-filters]]
matcher = ["shop.reviews"]
ignore-sql = ["drop column"]

[[sink.dispatchers]]
matcher = ["shop.customers"]
topic = "few_people"
partition = "index-value"

[[sink.dispatchers]]
matcher = ["shop.*"]
topic = "few_{table}"
partition = "table"
target-schema = "archive"

[[sink.column-selectors]]
matcher = ["shop.customers"]
columns = ["*", "!name", "!balance"]
"""
_EXCLUDED = ("orders", "order_lines", "all_types")


@dataclass(frozen=True)
class Count:
    """What a rule should leave, and what is there."""

    rule: str
    wanted: int
    found: int

    @property
    def right(self) -> bool:
        """Whether they are the same."""
        return self.wanted == self.found

    def line(self) -> str:
        """For people."""
        sign = "=" if self.right else "≠"
        return f"{self.rule:58} expected {self.wanted:7,} {sign} {self.found:7,} found"


@dataclass
class Topics:
    """What lies in the changefeed's topics, counted."""

    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    places: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    columns: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    ddl: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, topic: str, value: bytes) -> None:
        """Count a message."""
        said = json.loads(value)
        table, kind = said["table"], said["type"]
        if said["isDdl"]:
            self.ddl[table, kind] += 1
            self.wrong["drop column"] += table == "reviews" and "DROP COLUMN" in said["sql"]
            return
        self.kinds[table, kind] += 1
        self.places[table, topic, said["database"]] += 1
        (row,) = said["data"]
        if table == "customers":
            self.columns.update(row.keys())
            self.wrong["odd"] += kind == "UPDATE" and int(row["id"]) % 2 == 1


def read(bootstrap: str) -> Topics:
    """All that the changefeed's topics hold now."""
    found = Topics()
    names = topics.named(bootstrap, PREFIX)
    for topic, _, _, _, value in topics.records(bootstrap, names):
        found.add(topic, value or b"")
    return found


def judge(found: Topics, committed: Committed, upstream: Connect, schema: str) -> list[Count]:
    """Each rule by what was committed, or by what the upstream holds."""
    with upstream() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {schema}.customers")
        ((inserted,),) = cursor.fetchall()
        cursor.execute(
            f"SELECT COUNT(*) FROM {schema}.reviews WHERE stars >= 3 AND product NOT LIKE 'q%'"
        )
        ((reviews,),) = cursor.fetchall()
    kinds, customers, tags = found.kinds, committed.count("customers"), committed.count("tags")
    excluded = sum(n for (table, _), n in kinds.items() if table in _EXCLUDED)
    left_out = sum(committed.count(table) for table in _EXCLUDED)
    updates = (customers - inserted) // 2
    strange = sum(
        n for place, n in found.places.items() if place[1:] != (_topic(place[0]), "archive")
    )
    return [
        Count(f"rules: orders, lines, all_types ({left_out:,} changes)", 0, excluded),
        Count("tags: inserts and updates", tags, kinds["tags", "INSERT"] + kinds["tags", "UPDATE"]),
        Count("tags: ignore-event = delete", 0, kinds["tags", "DELETE"]),
        Count("customers: inserts", inserted, kinds["customers", "INSERT"]),
        Count("customers: updates of even ids", updates, kinds["customers", "UPDATE"]),
        Count("customers: ignore-update-new-value-expr, odd ids", 0, found.wrong["odd"]),
        Count(
            "customers: column-selectors, name and balance",
            0,
            found.columns["name"] + found.columns["balance"],
        ),
        Count("reviews: ignore-insert-value-expr", reviews, kinds["reviews", "INSERT"]),
        Count("baskets: ignore-event = truncate table", 0, found.ddl["baskets", "TRUNCATE"]),
        Count("reviews: ignore-sql = drop column", 0, found.wrong["drop column"]),
        Count("dispatchers: messages in other topics, or not of archive", 0, strange),
    ]


def _topic(table: str) -> str:
    return "few_people" if table == "customers" else f"few_{table}"
