"""Messages fold into tables, however their keys are spread over partitions."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest

from cdc.verify.documents import canonical
from cdc.verify.fold import Fold, FoldedTable, MessageUnreadable
from cdc.verify.fold_store import FoldNotKept, FoldStore


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
        fold = Fold({("s", "t"): FoldedTable(("id",), spread=True)}, FoldStore())
        for partition, message in order:
            fold.add(partition, message, "")
        (states,) = [page for page in fold.tables["s", "t"].pages() if page]
        assert {key: state.row for key, state in states.items()} == {("1",): {"id": "1", "c": "b"}}


def test_a_changed_key_leaves_none_behind_and_old_may_be_short() -> None:
    table = FoldedTable(("id",))
    fold = Fold({("s", "t"): table}, FoldStore())
    fold.add(0, _message("INSERT", {"id": "1", "c": "a"}), "")
    fold.add(0, _message("UPDATE", {"id": "2", "c": "a"}, {"id": "1"}), "")
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
        fold = Fold({("s", "t"): table}, store)
        tracemalloc.start()
        try:
            for n in range(keys):
                fold.add(n % 3, _message("INSERT", {"id": f"{n}", "c": text}), "")
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
        Fold({}, FoldStore()).add(0, b"\xff", "topic x/0 offset 7")
    fold = Fold({}, FoldStore())
    fold.add(0, b'{"type": "TIDB_WATERMARK"}', "")
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
