"""The judge of histories sees what is wrong with one."""

from __future__ import annotations

from typing import Any

import pytest

from bench.histories import Histories


def _message(kind: str, data: dict[str, Any], old: Any = None, key: str | None = "id") -> Any:
    return {
        "isDdl": False,
        "type": kind,
        "table": "t",
        "pkNames": [key] if key else None,
        "data": [data],
        "old": [old] if old is not None else None,
    }


ONE, TWO = {"id": "1", "v": "a"}, {"id": "2", "v": "a"}


def _after(*messages: Any) -> Histories:
    histories = Histories()
    for message in messages:
        histories.take(message)
    return histories


def test_a_whole_history() -> None:
    found = _after(
        _message("INSERT", ONE),
        _message("UPDATE", TWO, {"id": "1"}),
        _message("DELETE", TWO),
        _message("INSERT", TWO),
        {"isDdl": True, "type": "ALTER"},
    )
    assert (found.broken, found.rows("t"), found.messages) == ([], [TWO], 4)


@pytest.mark.parametrize(
    "messages",
    [
        [_message("UPDATE", ONE, {"v": "b"})],
        [_message("DELETE", ONE)],
        [_message("INSERT", ONE), _message("INSERT", ONE)],
        [_message("INSERT", ONE), _message("DELETE", ONE), _message("UPDATE", ONE, {"v": "b"})],
        [_message("INSERT", ONE), _message("INSERT", TWO), _message("UPDATE", TWO, {"id": "1"})],
        [_message("DELETE", ONE, key=None)],
        [_message("INSERT", ONE, key=None), _message("UPDATE", TWO, {"v": "b"}, None)],
    ],
)
def test_a_broken_one(messages: list[Any]) -> None:
    assert len(_after(*messages).broken) == 1


def test_rows_without_a_key_are_counted() -> None:
    found = _after(*[_message("INSERT", ONE, key=None)] * 3, _message("DELETE", ONE, key=None))
    assert (found.broken, found.rows("t")) == ([], [ONE, ONE])
