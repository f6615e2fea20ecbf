"""Tables of some databases: no other is looked at, and none that rules match is left out."""

from __future__ import annotations

import pytest

from cdc.schema.snapshot import Schema, catalog
from filter.rules import TableRules

SNAPSHOT = {
    "ts": 1,
    "server": {"kind": "mysql", "version": "8.0.33"},
    "databases": {name: {} for name in ("shop", "Shop2", "mysql", "empty")},
    "tables": {
        f"{database}.{name}": f"CREATE TABLE `{name}` (`id` int)"
        for database in ("shop", "Shop2", "mysql")
        for name in ("orders", "_orders_new", "logs")
    },
}


@pytest.mark.parametrize(
    "rules",
    [
        ["*.*"],
        ["shop.*"],
        ["*.*", "!shop.*"],
        ["*.*", "!shop.logs"],
        ["!shop.*", "shop.orders"],
        ["shop2.orders", "!*.orders"],
        ["mysql.*"],
        ["/^s.*2$/.*"],
        [],
    ],
)
def test_databases_that_rules_match_have_all_tables_that_they_match(rules: list[str]) -> None:
    made = TableRules(rules)
    for schema in (Schema(SNAPSHOT), catalog(SNAPSHOT)):
        some = set(schema.tables_of(made.matches_schema))
        assert some <= set(schema)
        assert {n for n in schema if made.matches(*n)} == {n for n in some if made.matches(*n)}
        assert {n[0] for n in some} <= {n for n in SNAPSHOT["databases"] if made.matches_schema(n)}
