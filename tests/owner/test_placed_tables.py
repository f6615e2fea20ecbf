"""Tables are moved to captures that take tasks, and to no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.errors import InvalidError
from cdc.coord.contract import Delete, Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.messages import CaptureInfo, FeedState
from owner import admin
from owner.placed_tables import ANYWHERE
from tests.owner.operating import Installation, schema_of

ACROSS = {"scheduler": {"enable-table-across-nodes": True}}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Installation]:
    """Captures ``a`` and ``b`` lend workers, ``c`` does not; changefeed ``f`` is of both tables."""
    made = Installation(EmbeddedStore(tmp_path / "meta.db", SystemClock()))
    made.schema = schema_of({"x": "id INT PRIMARY KEY", "Y": "id INT PRIMARY KEY"})
    for name, lends in {"a": 2, "b": 1, "c": 0}.items():
        capture(made, name, lends)
    made.create("f", f"file://{tmp_path}/sink?protocol=canal-json", replica_config=ACROSS)
    yield made
    made.store.close()


def capture(here: Installation, name: str, lends: int) -> None:
    info = CaptureInfo(id=name, address="127.0.0.1:1", ready=True, lends=lends)
    put(here, here.keys.capture(name), info)


def put(here: Installation, key: str, value: Any) -> None:
    here.store.txn([], [Put(key, value.model_dump_json().encode())])


def placed(here: Installation) -> list[tuple[str, str]]:
    return list(admin.get(here.store, here.keys, "f")[1].placed.items())


def refused(here: Installation, table: str, to: str, feed: str = "f") -> str:
    with pytest.raises(InvalidError) as error:
        here.operations.move_table(feed, table, to)
    return error.value.code


def test_the_last_one_moved_is_last_and_captures_that_are_gone_are_forgotten(
    here: Installation,
) -> None:
    move = here.operations.move_table
    move("f", "shop.x", "a")
    move("f", "SHOP.y", "b")
    assert placed(here) == [("shop.x", "a"), ("shop.y", "b")]
    move("f", "shop.x", "b")
    assert placed(here) == [("shop.y", "b"), ("shop.x", "b")]
    move("f", "shop.y", ANYWHERE)
    assert placed(here) == [("shop.x", "b")]
    here.store.txn([], [Put(here.keys.drained("b"), b"")])
    move("f", "shop.y", "a")
    assert placed(here) == [("shop.x", "b"), ("shop.y", "a")]
    # It comes again under another name, so what was placed there is placed nowhere.
    capture(here, "b2", 1)
    here.store.txn([], [Delete(here.keys.capture("b"))])
    move("f", "shop.y", "b2")
    assert placed(here) == [("shop.y", "b2")]


def test_what_cannot_be_is_refused_by_name(here: Installation, tmp_path: Path) -> None:
    assert refused(here, "shop.x", "nobody") == "TG:ErrCaptureNotExist"
    assert refused(here, "shop.x", "c") == "TG:ErrTableMoveRefused"
    assert refused(here, "x", "a") == "TG:ErrTableNameInvalid"
    assert refused(here, "shop.x", "a", "g") == "TG:ErrChangeFeedNotExists"
    here.create("g", f"file://{tmp_path}/other?protocol=canal-json")
    assert refused(here, "shop.x", "a", "g") == "TG:ErrTableMoveRefused"
    narrow = {**ACROSS, "filter": {"rules": ["shop.x"]}}
    here.create("h", f"file://{tmp_path}/third?protocol=canal-json", replica_config=narrow)
    assert refused(here, "shop.y", "a", "h") == "TG:ErrTableMoveRefused"
    here.store.txn([], [Put(here.keys.drained("b"), b"")])
    assert refused(here, "shop.x", "b") == "TG:ErrTableMoveRefused"
    assert placed(here) == []


def test_what_has_ended_delivers_nothing_and_takes_no_table(here: Installation) -> None:
    entry, info = admin.get(here.store, here.keys, "f")
    put(here, entry.key, info.model_copy(update={"state": FeedState.FINISHED}))
    assert refused(here, "shop.x", "a") == "TG:ErrChangefeedUpdateRefused"
