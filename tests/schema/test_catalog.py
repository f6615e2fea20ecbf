"""Tables of a database as a persistent map."""

from __future__ import annotations

import tracemalloc

from cdc.schema.catalog import Tables
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session

_TABLE = parse_create_table(
    "CREATE TABLE `t` (`id` int)", Session(), schema="d", charset="utf8mb4", collation=None
)
_NAMES = [f"t{number}" for number in range(5_000)]


def test_tables_made_in_one_go_are_those_put_one_by_one() -> None:
    before = Tables().put("t7", _TABLE).put("other", _TABLE)
    one_by_one = before
    for name in _NAMES:
        one_by_one = one_by_one.put(name, _TABLE)
    at_once = before.of((name, _TABLE) for name in _NAMES)
    assert dict(at_once.items()) == dict(one_by_one.items())
    assert at_once.count == one_by_one.count == len(_NAMES) + 1
    assert sorted(before) == ["other", "t7"]


def test_a_small_database_is_small() -> None:
    tracemalloc.start()
    try:
        kept = [Tables().of((name, _TABLE) for name in _NAMES[:20]) for _ in range(50)]
        bytes_each = tracemalloc.get_traced_memory()[0] / len(kept)
    finally:
        tracemalloc.stop()
    # It was 290 KB, of a dictionary for each of 4,096 places.
    assert bytes_each < 30_000
