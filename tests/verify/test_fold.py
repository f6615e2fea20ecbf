"""Messages fold into tables, however their keys are spread over partitions."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import closing
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from cdc.schema.session import Session
from cdc.verify.columns import ColumnInfo, compared
from cdc.verify.documents import canonical
from cdc.verify.fold import Fold, FoldedTable, MessageUnreadable
from cdc.verify.fold_store import FoldNotKept, FoldStore
from cdc.verify.formats import TOPIC_FORMS
from cdc.verify.keys import KeyUnreadable, one_of
from sink.codec.protocols import Protocol

_CANAL = TOPIC_FORMS[Protocol.CANAL_JSON]


def _message(kind: str, row: dict[str, str], old: dict[str, str] | None = None) -> bytes:
    body = {"type": kind, "database": "s", "table": "t", "data": [row]}
    return json.dumps({**body, "old": [old] if old else None}).encode()


def test_a_key_that_moves_between_partitions_is_there_once_in_any_order() -> None:
    first = _message("INSERT", {"id": "1", "c": "a"})
    moved = (_message("DELETE", {"id": "1", "c": "a"}), _message("INSERT", {"id": "1", "c": "b"}))
    # Partition 0 has the first two, in order; partition 1 the last, at any time.
    for order in permutations([(0, first), (0, moved[0]), (1, moved[1])]):
        if order.index((0, first)) > order.index((0, moved[0])):
            continue
        fold = Fold({("s", "t"): FoldedTable(("id",), spread=True)}, FoldStore(), _CANAL)
        for partition, message in order:
            fold.add(partition, None, message, "")
        (states,) = [page for page in fold.tables["s", "t"].pages() if page]
        assert {key: state.row for key, state in states.items()} == {("1",): {"id": "1", "c": "b"}}


def test_a_changed_key_leaves_none_behind_and_old_may_be_short() -> None:
    table = FoldedTable(("id",))
    fold = Fold({("s", "t"): table}, FoldStore(), _CANAL)
    fold.add(0, None, _message("INSERT", {"id": "1", "c": "a"}), "")
    fold.add(0, None, _message("UPDATE", {"id": "2", "c": "a"}, {"id": "1"}), "")
    states = table.states([("1",), ("2",), ("3",)])
    assert {key: state.row for key, state in states.items()} == {
        ("1",): None,
        ("2",): {"id": "2", "c": "a"},
    }


def test_a_topic_larger_than_memory_is_folded_on_disk_and_leaves_no_file(tmp_path: Path) -> None:
    """The bound is that of what is held: the states of all keys are many times as large."""
    held, keys, text = 1 << 18, 5_000, "x" * 1_500
    with closing(FoldStore(tmp_path, held_bytes=held)) as store:
        table = FoldedTable(("id",))
        fold = Fold({("s", "t"): table}, store, _CANAL)
        tracemalloc.start()
        try:
            for n in range(keys):
                fold.add(n % 3, None, _message("INSERT", {"id": f"{n}", "c": text}), "")
            found = sum(len(page) for page in table.pages())
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert found == keys
        assert list(tmp_path.iterdir()) == []
    assert most < keys * len(text) / 3


def test_a_folder_that_takes_no_file_is_an_error_by_name(tmp_path: Path) -> None:
    with pytest.raises(FoldNotKept, match="the file of the topic's rows"):
        FoldStore(tmp_path / "none")


def test_what_is_no_message_is_an_error_that_says_where() -> None:
    with pytest.raises(MessageUnreadable, match="topic x/0 offset 7"):
        Fold({}, FoldStore(), _CANAL).add(0, None, b"\xff", "topic x/0 offset 7")
    fold = Fold({}, FoldStore(), _CANAL)
    fold.add(0, None, b'{"type": "TIDB_WATERMARK"}', "")
    assert fold.messages == 1


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"a": 1, "bb": [1, 2]}', '{"bb":[1,2],"a":1}', True),
        ('{"a": 1}', '{"a": 1.0}', False),
        ("[1e2]", "[100.0]", True),
        ("[1, 2]", "[2, 1]", False),
        ("18446744073709551616", "1.8446744073709552e19", True),
        ("no json", "no json", True),
    ],
)
def test_documents_are_compared_as_documents(one: str, other: str, equal: bool) -> None:
    assert (canonical(one) == canonical(other)) is equal


def _row_of(ts: int, row: int, table: str = "t") -> tuple[bytes, bytes]:
    source = {"db": "s", "table": table, "commit_ts": ts}
    after = {"id": row, "ts": ts}
    return b'{"id":%d}' % row, json.dumps(
        {"before": None, "after": after, "source": source, "op": "c"}
    ).encode()


def _change_of(ts: int, sql: str) -> bytes:
    source = {"db": "s", "commit_ts": ts, "ts_ms": 0, "snapshot": "false"}
    return json.dumps({"source": source, "databaseName": "s", "ddl": sql}).encode()


def test_changes_that_are_told_apart_count_by_their_ts_in_any_order() -> None:
    table = FoldedTable(("id",))
    fold = Fold({("s", "t"): table}, FoldStore(), TOPIC_FORMS[Protocol.DEBEZIUM])
    fold.add(0, *_row_of(10, 1), "")
    fold.add(1, *_row_of(11, 2), "")
    for change in (_change_of(40, "ALTER TABLE other ADD c INT"), _change_of(20, "TRUNCATE t")):
        fold.add_change(None, change, "")
    fold.add(0, *_row_of(30, 3), "")

    def there() -> set[str]:
        return {
            key[0] for page in table.pages() for key, state in page.items() if state.row is not None
        }

    # The other partition has had no row behind the change: one below it may still come.
    assert there() == {"2", "3"}
    fold.add(1, *_row_of(15, 4), "")
    assert there() == {"2", "3", "4"}
    fold.settle(1, [0, 1])
    assert there() == {"2", "3", "4"}, "the change that was told first is of another table"
    fold.settle(2, [0, 1])
    assert there() == {"3"}
    assert table.complete


def test_what_a_connector_tells_has_a_place_within_its_second_and_what_it_finds_is_none() -> None:
    form = TOPIC_FORMS[Protocol.DEBEZIUM].form

    def told(pos: int, second: int, **more: object) -> Any:
        source = {"db": "s", "table": "t", "ts_ms": second * 1000 + 7, "pos": pos}
        source |= {"snapshot": "false"} | more
        message = {"source": source, "databaseName": "s", "ddl": "TRUNCATE t"}
        return form.read(None, json.dumps(message).encode(), Session())

    places = [told(4, 1), told(1 << 20, 1), told((1 << 20) + 19, 1), told(4, 2)]
    assert [one.ts for one in places] == sorted({one.ts for one in places})
    assert told(4, 1, snapshot="true") is None


def test_a_key_from_a_message_does_not_become_sql() -> None:
    number, text = (compared(ColumnInfo("c", kind, kind)) for kind in ("int", "date"))
    assert one_of([number, text], [("-1", "2024-05-06")]) == "(`c` = -1 AND `c` = '2024-05-06')"
    for key in (("1 OR 1=1", "2024-05-06"), ("1", "' OR '1'='1"), ("1", "\\")):
        with pytest.raises(KeyUnreadable, match="column c"):
            one_of([number, text], [key])
