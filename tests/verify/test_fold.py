"""Messages fold into tables, however their keys are spread over partitions."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from cdc.verify.documents import canonical
from cdc.verify.fold import Fold, FoldedTable, MessageUnreadable


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
        fold = Fold({("s", "t"): FoldedTable(("id",), spread=True)})
        for partition, message in order:
            fold.add(partition, message, "")
        assert fold.tables["s", "t"].row(("1",)) == {"id": "1", "c": "b"}
        assert list(fold.tables["s", "t"].present()) == [("1",)]


def test_a_changed_key_leaves_none_behind_and_old_may_be_short() -> None:
    table = FoldedTable(("id",))
    fold = Fold({("s", "t"): table})
    fold.add(0, _message("INSERT", {"id": "1", "c": "a"}), "")
    fold.add(0, _message("UPDATE", {"id": "2", "c": "a"}, {"id": "1"}), "")
    assert (list(table.present()), table.known(("1",)), table.row(("1",))) == ([("2",)], True, None)
    assert not table.known(("3",))


def test_what_is_no_message_is_an_error_that_says_where() -> None:
    with pytest.raises(MessageUnreadable, match="topic x/0 offset 7"):
        Fold({}).add(0, b"\xff", "topic x/0 offset 7")
    fold = Fold({})
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
