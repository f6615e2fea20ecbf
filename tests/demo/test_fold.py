"""The judge of the demo and the soak: it must see what is wrong, not only what is right."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bench.fold import Fold, Row, Verdict, compare, verdict
from bench.workload import WORKER_SHIFT, Committed
from bench.workload_tables import tables

_TAGS = next(t for t in tables("mariadb") if t.name == "tags")
_WORKER = 1


def _row(num: int, count: int, tag: str = "") -> Row:
    version = _WORKER << WORKER_SHIFT | count
    return {
        "tag": tag or f"t{num}",
        "num": str(num),
        "note": None,
        "ver": str(version),
        "at_us": "1700000000000000",
    }


def _message(kind: str, row: Row, old: Row | None = None) -> bytes:
    said = {"type": kind, "table": "tags", "data": [row], "old": None if old is None else [old]}
    return json.dumps(said).encode()


def _story() -> tuple[list[bytes], list[Row], Committed]:
    """Two inserts, an update, a change of key as two messages, an insert and its delete."""
    messages = [
        _message("INSERT", _row(1, 0)),
        _message("INSERT", _row(2, 1)),
        _message("UPDATE", _row(1, 2), _row(1, 0)),
        _message("DELETE", _row(2, 1)),
        _message("INSERT", _row(2, 3, "moved")),
        _message("INSERT", _row(3, 7)),
        _message("DELETE", _row(3, 7)),
    ]
    committed = Committed()
    committed.add(_WORKER, [("tags", 0, 2)], 2)
    committed.add(_WORKER, [("tags", 2, 4)], 2)
    committed.add(_WORKER, [("tags", 7, 8)], 2)
    return messages, [_row(1, 2), _row(2, 3, "moved")], committed


def _judged(messages: list[bytes]) -> Verdict:
    _, upstream, committed = _story()
    fold = Fold([_TAGS])
    for message in messages:
        fold.add(message, 1700000001.0)
    return verdict(fold, committed, [compare(_TAGS, upstream, fold.rows["tags"])])


def test_columns_and_tables_that_schema_changes_brought_are_passed_over() -> None:
    messages, _, _ = _story()
    changed = json.loads(messages[2])
    changed["data"][0]["more"], changed["old"][0]["more"] = "7", None
    messages[2] = json.dumps(changed).encode()
    ddl = {"type": "ALTER", "isDdl": True, "table": "tags", "sql": "ALTER TABLE tags ADD more INT"}
    fresh = {"type": "INSERT", "table": "fresh", "data": [{"id": "1"}], "old": None}
    messages[2:2] = [json.dumps(ddl).encode(), json.dumps(fresh).encode()]
    assert _judged(messages).proven


def test_a_complete_topic_is_proven() -> None:
    found = _judged(_story()[0])
    assert found.proven, found
    assert found.lines() == [
        "tags         upstream = downstream  2 rows, 2 rows",
        "lost 0, duplicated 0",
    ]


@pytest.mark.parametrize("at", range(7))
def test_a_lost_message_is_seen(at: int) -> None:
    messages = _story()[0]
    lost_a_delete = b'"DELETE"' in messages[at]
    del messages[at]
    found = _judged(messages)
    assert not found.proven
    # A DELETE takes no number of its own: its row is left over downstream.
    assert found.lost == (0 if lost_a_delete else 1)
    if lost_a_delete:
        assert not found.tables[0].equal


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("later", [0, 3])
def test_a_repeated_message_is_seen(at: int, later: int) -> None:
    messages = _story()[0]
    messages.insert(min(at + 1 + later, len(messages)), messages[at])
    found = _judged(messages)
    assert (found.duplicated, found.lost) == (1, 0)
    assert not found.proven


@pytest.mark.parametrize("column", ["tag", "num", "note", "at_us"])
def test_a_changed_value_is_seen(column: str) -> None:
    messages = _story()[0]
    said = json.loads(messages[4])
    said["data"][0][column] = "other"
    if column == "at_us":
        said["data"][0][column] = "1700000000000001"
    messages[4] = json.dumps(said).encode()
    found = _judged(messages)
    assert (found.lost, found.duplicated) == (0, 0)
    assert not found.tables[0].equal
    assert not found.proven


def _null_for_text(row: Row) -> None:
    row["note"] = ""


def _missing_column(row: Row) -> None:
    del row["note"]


@pytest.mark.parametrize("damage", [_null_for_text, _missing_column])
def test_null_is_not_an_empty_text_nor_an_absent_column(damage: Callable[[Row], None]) -> None:
    messages = _story()[0]
    row = _row(1, 2)
    damage(row)
    messages[2] = _message("UPDATE", row, _row(1, 0))
    assert not _judged(messages).tables[0].equal


def test_a_wrong_old_image_is_seen() -> None:
    messages = _story()[0]
    messages[2] = _message("UPDATE", _row(1, 2), {**_row(1, 0), "note": "x"})
    found = _judged(messages)
    assert found.tables[0].equal
    assert found.disordered == 1
    assert not found.proven


def test_two_messages_of_a_key_in_the_wrong_order_are_seen() -> None:
    messages = _story()[0]
    messages[0], messages[2] = messages[2], messages[0]
    found = _judged(messages)
    assert found.disordered
    assert not found.proven


def test_a_change_that_was_rolled_back_is_seen() -> None:
    messages = _story()[0]
    row = _row(9, 5)
    found = _judged([*messages, _message("INSERT", row), _message("DELETE", row)])
    assert found.tables[0].equal
    assert found.uncommitted == 1
    assert not found.proven
