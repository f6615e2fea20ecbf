"""Folded rows live through schema changes, whatever partitions they are in."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import count

import pytest

from cdc.verify.fold import Fold, FoldedState, FoldedTable
from cdc.verify.fold_store import HELD_BYTES, FoldStore
from cdc.verify.formats import TOPIC_FORMS
from sink.codec.protocols import Protocol

Rows = dict[str, str | None]


def ddl(sql: str, table: str = "t", ts: int | None = None) -> bytes:
    body = {"type": "ALTER", "isDdl": True, "database": "s", "table": table, "sql": sql, "es": 7}
    return json.dumps(body | ({"_tidb": {"commitTs": ts}} if ts else {})).encode()


def row(
    kind: str, values: Rows, table: str = "t", old: Rows | None = None, key: str | None = "id"
) -> bytes:
    body = {"type": kind, "database": "s", "table": table, "data": [values], "isDdl": False}
    return json.dumps(body | {"old": [old] if old else None, "pkNames": key and [key]}).encode()


def folded(
    *parts: Sequence[bytes], table: str = "t", key: tuple[str, ...] = ("id",)
) -> FoldedTable:
    """The fold of partitions, read one after the other in any order.

    It keeps each state in its file at once, or in memory as long as it can.
    """
    made = FoldedTable(key)
    kept = FoldStore(held_bytes=random.Random(repr(parts)).choice((0, HELD_BYTES)))
    fold = Fold({("s", table): made}, kept, TOPIC_FORMS[Protocol.CANAL_JSON])
    order = list(enumerate(parts))
    random.Random(len(parts[0])).shuffle(order)
    for place, messages in order:
        for n, message in zip(count(), messages, strict=False):
            fold.add(("topic", place), None, message, f"{place}:{n}")
    return made


def states(table: FoldedTable) -> dict[str, FoldedState]:
    """Of all keys, by their text; each is told once, and the same when it is asked for."""
    found = [item for page in table.pages() for item in page.items()]
    assert len(dict(found)) == len(found)
    assert table.states([key for key, _ in found]) == dict(found)
    return {text: state for (text,), state in sorted(found)}


def rows(table: FoldedTable) -> list[Rows]:
    return [state.row for state in states(table).values() if state.row is not None]


def test_columns_are_dropped_renamed_and_added() -> None:
    alter = ddl("ALTER TABLE t DROP COLUMN gone, CHANGE old newer INT, ADD more INT DEFAULT 7")
    table = folded(
        [
            row("INSERT", {"id": "1", "old": "a", "gone": "x"}),
            row("INSERT", {"id": "2", "old": "b", "gone": "y"}),
            alter,
            row("UPDATE", {"id": "2", "newer": "3", "more": "4"}, old={"newer": "b"}),
            ddl("ALTER TABLE t RENAME COLUMN newer TO newest"),
        ]
    )
    assert rows(table) == [{"id": "1", "newest": "a"}, {"id": "2", "newest": "3", "more": "4"}]
    assert states(table)["1"].unsaid == {"newest", "more"}
    assert states(table)["2"].unsaid == set()
    assert not table.complete


@pytest.mark.parametrize(
    "sql", ["TRUNCATE t", "DROP TABLE t", "CREATE OR REPLACE TABLE t (id INT)"]
)
def test_a_table_is_emptied(sql: str) -> None:
    table = folded(
        [row("INSERT", {"id": "1"}), ddl(sql), row("INSERT", {"id": "3"})],
        [row("INSERT", {"id": "2"}), ddl(sql)],
    )
    assert list(states(table)) == ["3"]
    assert "1" not in states(table)


def test_a_created_table_is_complete_and_one_that_may_have_been_there_is_not() -> None:
    fresh = ddl("CREATE TABLE t (id INT PRIMARY KEY)")
    assert folded([fresh, row("INSERT", {"id": "1"})], [fresh]).complete
    perhaps = ddl("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)")
    table = folded([row("INSERT", {"id": "1"}), perhaps], [perhaps])
    assert (rows(table), table.complete) == ([{"id": "1"}], False)


@pytest.mark.parametrize("ts", [None, 1 << 60])
def test_a_renamed_table_takes_its_rows_along_to_another_partition(ts: int | None) -> None:
    """By table, the new name has another partition: the newer state of a key counts."""
    swap = ddl("RENAME TABLE t TO x, u TO t, x TO u", ts=ts)
    parts = (
        [row("INSERT", {"id": "1", "of": "t"}), swap, row("INSERT", {"id": "9"}, "u")],
        [
            row("INSERT", {"id": "1", "of": "u"}, "u"),
            row("INSERT", {"id": "2", "of": "u"}, "u"),
            swap,
            row("DELETE", {"id": "1", "of": "u"}),
            row("UPDATE", {"id": "2", "of": "new"}, old={"of": "u"}),
        ],
        [swap],
    )
    assert rows(folded(*parts)) == [{"id": "2", "of": "new"}]
    assert rows(folded(*parts, table="u")) == [{"id": "1", "of": "t"}, {"id": "9"}]
    moved = ddl("ALTER TABLE t RENAME TO s.v", ts=ts and ts + 1)
    late = row("DELETE", {"id": "2"}, "v")
    fresh = ([*parts[0], moved], [*parts[1], moved], [swap, moved, late])
    assert rows(folded(*fresh, table="v")) == []
    assert rows(folded(*fresh[:2], [swap, moved], table="v")) == [{"id": "2", "of": "new"}]


def test_rows_of_a_dropped_partition_may_be_gone() -> None:
    drop = ddl("ALTER TABLE t DROP PARTITION p0")
    table = folded([row("INSERT", {"id": "1"}), drop, row("INSERT", {"id": "2"})])
    assert [state.may_be_gone for state in states(table).values()] == [True, False]
    swap = ddl("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE other")
    table = folded([row("INSERT", {"id": "1"}), swap, row("INSERT", {"id": "2"})])
    assert states(table)["1"].may_be_gone
    assert states(table)["1"].unsaid == {"*"}
    assert states(table)["2"].unsaid == set()


def test_the_key_of_a_table_may_change() -> None:
    table = folded(
        [
            row("INSERT", {"a": "1", "b": "5"}, key="a"),
            row("INSERT", {"a": "2", "b": "6"}, key="a"),
            ddl("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)"),
            row("UPDATE", {"a": "3", "b": "6"}, old={"a": "2"}, key="b"),
        ],
        key=("b",),
    )
    assert rows(table) == [{"a": "1", "b": "5"}, {"a": "3", "b": "6"}]
    assert not table.unsure
    lost = folded(
        [
            row("INSERT", {"a": "1"}, key="a"),
            ddl("ALTER TABLE t DROP PRIMARY KEY, ADD id INT AUTO_INCREMENT PRIMARY KEY"),
        ]
    )
    assert lost.unsure


def test_rows_without_a_key() -> None:
    table = folded(
        [
            row("INSERT", {"a": "1", "b": "2"}, key=None),
            row("INSERT", {"a": "1", "b": "3"}, key=None),
            ddl("ALTER TABLE t DROP COLUMN b"),
            row("DELETE", {"a": "1"}, key=None),
        ],
        key=(),
    )
    assert list(table.counts()) == [({"a": "1"}, 1)]
    assert not table.unsure
    added = [row("INSERT", {"a": "1"}, key=None), ddl("ALTER TABLE t ADD b INT DEFAULT 3")]
    assert folded(added, key=()).unsure


def test_quoting_is_read_as_the_message_says() -> None:
    body = json.loads(ddl('ALTER TABLE "t" DROP COLUMN "gone"'))
    said = {"defaultDatabase": "s", "session": {"sql_mode": "ANSI_QUOTES"}}
    message = json.dumps(body | {"database": "", "_tidegate": said}).encode()
    assert rows(folded([row("INSERT", {"id": "1", "gone": "x"}), message])) == [{"id": "1"}]
