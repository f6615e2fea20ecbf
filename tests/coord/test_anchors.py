"""What the store knows of an upstream's log, and where another one could begin."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.coord import anchors
from cdc.coord.anchors import AnchorLost, Anchors, spare
from cdc.coord.contract import Delete, Put, Unchanged
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys

KEYS = Keys()
POSITION = {"file": "bin.000001", "pos": 4}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Anchors]:
    store = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    yield Anchors(store, KEYS, "u")
    store.close()


def _ts(kept: Anchors) -> list[int]:
    return [anchor.ts for anchor in kept.all()]


def test_a_schema_comes_back_from_its_pieces(
    kept: Anchors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "_PIECE", 100)
    draw = random.Random(1)
    snapshot = {"tables": {f"s.t{i}": str(draw.random()) for i in range(50)}}
    assert kept.add(10, POSITION, 10, snapshot)
    # The next one has the same schema, and one of another upstream is nobody's here.
    assert kept.add(20, POSITION, 10, None)
    assert Anchors(kept.store, KEYS, "other").add(15, POSITION, 15, {"tables": {}})
    first, second = kept.all()
    assert first.chunks == second.chunks > 5
    assert kept.schema(first) == kept.schema(second) == snapshot
    kept.store.txn([], [Delete(KEYS.schema("u", 10, 3))])
    with pytest.raises(AnchorLost):
        kept.schema(second)


def test_one_whose_schema_is_not_there_is_not_written(kept: Anchors) -> None:
    assert not kept.add(20, POSITION, 10, None)
    assert _ts(kept) == []


def test_only_while_the_log_is_the_one(kept: Anchors) -> None:
    assert kept.make_current("a", "c1", 0)
    revision, current = kept.current()
    assert current is not None
    held = [Unchanged(KEYS.current_log("u"), revision)]
    assert kept.add(10, POSITION, 10, {}, held)
    assert kept.make_current("b", "c2", revision)
    assert not kept.make_current("a", "c1", revision)
    assert not kept.add(20, POSITION, 20, {}, held)
    kept.trim(30, held)
    assert _ts(kept) == [10]


def test_a_log_that_is_disowned_takes_its_anchors_along(kept: Anchors) -> None:
    assert kept.make_current("a", "c1", 0)
    # The capture had another log before, which was the one; the last says only who wrote it.
    for ts, capture, log in ((10, "", ""), (20, "c0", "x"), (30, "c1", "y"), (40, "c1", "a")):
        assert kept.add(ts, POSITION, 10, {}, capture=capture, log=log)
    assert kept.add(50, POSITION, 10, {}, capture="c1")
    kept.disown("other", "c1")
    assert _ts(kept) == [10, 20, 30, 40, 50]
    kept.disown("a", "c1")
    assert _ts(kept) == [10, 20, 30]
    current = kept.current()[1]
    assert current is not None
    assert current.log == ""


def test_behind_a_log_that_is_disowned_there_is_a_place_to_begin(kept: Anchors) -> None:
    assert kept.make_current("a", "c1", 0)
    assert kept.add(10, POSITION, 10, {"of": 10}, capture="c0", log="x")
    for ts in range(20, 60, 10):
        assert kept.add(ts, POSITION, ts, {"of": ts}, capture="c1", log="a")
        kept.trim(45, log="a")
    # Of the log that is pulled the last one that is needed, and the last of any other.
    assert _ts(kept) == [10, 40, 50]
    assert {int(e.key.split("/")[-2]) for e in kept.store.range(KEYS.schema_prefix("u"))[1]} == {
        10, 40, 50,
    }  # fmt: skip
    kept.disown("a", "c1")
    (left,) = kept.all()
    assert (left.ts, kept.schema(left)) == (10, {"of": 10})


def test_what_nothing_begins_with_goes(kept: Anchors) -> None:
    for ts, schema_ts in ((10, 10), (20, 10), (30, 30), (40, 30)):
        assert kept.add(ts, POSITION, schema_ts, {"of": schema_ts})
    kept.trim(25)
    assert _ts(kept) == [20, 30, 40]
    assert kept.schema(kept.all()[0]) == {"of": 10}
    kept.trim(39)
    assert _ts(kept) == [30, 40]
    assert not kept.store.range(KEYS.schema("u", 10, 0))[1]
    kept.store.txn([], [Put("/other", b"")])
    kept.clear()
    assert [e.key for e in kept.store.range("/")[1]] == ["/other"]


def test_a_changefeed_that_stands_still_costs_no_more_than_so_many() -> None:
    every = list(range(0, 10_000, 10))
    gone = spare(every, 5)
    left = [ts for ts in every if ts not in gone]
    assert len(left) == 64
    assert (left[0], left[-1]) == (0, 9990)
    # Nothing at or below what is needed: the oldest may still be of use to a later one.
    assert spare([10, 20], 5) == set()
    assert spare([10, 20], 20) == {10}
