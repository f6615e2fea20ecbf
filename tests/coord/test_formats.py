"""What lies in a store can be read by the versions that follow, and is not lost by those before.

``format_1.json`` has a value of each kind as this format's first version wrote it. It does not
change: a field more has a default, and what an older version would misunderstand is a new format.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc.base.position import LastOfNode, TransactionName
from cdc.coord import stored
from cdc.coord.contract import StoredKey
from cdc.coord.messages import FeedInfo, FeedState, FeedStatus, StoredMessage, UpstreamInfo, named
from cdc.coord.stored import StoredValueUnreadable

KEPT: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("format_1.json").read_text())
KINDS = {kind.__name__: kind for kind in StoredMessage.__subclasses__()}


def _entry(value: dict[str, Any]) -> StoredKey:
    return StoredKey("/k", json.dumps(value).encode(), 1, 1)


def _of_first(now: Any, first: Any) -> Any:
    """What of a value the first version has written; messages inside may have fields more, too."""
    if isinstance(now, dict) and isinstance(first, dict):
        return {key: _of_first(now[key], value) for key, value in first.items()}
    return now


def test_each_kind_of_value_is_kept_here() -> None:
    assert KINDS.keys() == KEPT.keys()


@pytest.mark.parametrize("name", KINDS)
def test_values_of_the_first_version_are_read_and_mean_the_same(name: str) -> None:
    message = stored.read(_entry(KEPT[name]), KINDS[name])
    again = json.loads(message.model_dump_json())
    assert _of_first(again, KEPT[name]) == KEPT[name]
    # A field that is not kept here yet was not written by the first version, and has a default.
    assert stored.read(_entry(again), KINDS[name]) == message
    # Nothing of it is at its default, so that a field that is read no more shows.
    required = {n: KEPT[name][n] for n, f in KINDS[name].model_fields.items() if f.is_required()}
    least = json.loads(KINDS[name].model_validate(required).model_dump_json())
    same = {key for key in KEPT[name] if least[key] == again[key]} - required.keys() - {"format"}
    assert same <= {"kind", "incarnation"}


@pytest.mark.parametrize("name", KINDS)
def test_fields_of_a_newer_version_are_kept(name: str) -> None:
    message = stored.read(_entry(KEPT[name] | {"of_newer": {"a": [1]}}), KINDS[name])
    after = json.loads(message.model_copy().model_dump_json())
    assert after["of_newer"] == {"a": [1]}


def test_what_is_not_known_is_not_shown() -> None:
    newer = KEPT["FeedInfo"] | {"token": "S3cret"}
    info = stored.read(_entry(newer), FeedInfo)
    changed = info.model_copy(update={"state": FeedState.STOPPED})
    assert json.loads(changed.model_dump_json())["token"] == "S3cret"
    assert "S3cret" not in repr(changed)
    assert "S3cret" not in str(changed)


@pytest.mark.parametrize("number", [0, 2, 99])
def test_another_format_is_refused_by_name(number: int) -> None:
    with pytest.raises(StoredValueUnreadable, match="format"):
        stored.read(_entry(KEPT["UpstreamInfo"] | {"format": number}), UpstreamInfo)


def test_positions_of_shards_are_read_as_they_were_written() -> None:
    """As the first version with cuts wrote a changefeed's progress, and its meaning."""
    text = (
        '{"checkpoint_ts":5,"transactions":{"5":[5,"n2:0-7",41,3,'
        '[["n1:8f1b2c3d-0000-11ee-8000-0242ac120002",12,true],["n2:0-7",41,false]]],"6":[6,"0-7",42,3]}}'
    )
    status = stored.read(StoredKey("/k", text.encode(), 1, 1), FeedStatus)
    names = named(status.transactions)
    cut = (
        LastOfNode("n1:8f1b2c3d-0000-11ee-8000-0242ac120002", 12, True),
        LastOfNode("n2:0-7", 41),
    )
    assert names == {
        5: TransactionName(5, "n2:0-7", 41, 3, cut),
        6: TransactionName(6, "0-7", 42, 3),
    }
    assert [last.node for last in cut] == ["n1", "n2"]
    written = {ts: name.to_list() for ts, name in names.items()}
    assert json.loads(json.dumps(written)) == json.loads(text)["transactions"]
