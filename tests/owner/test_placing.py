"""What binds an upstream to the log that there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.parts import Parts
from cdc.coord.anchors import Anchors
from cdc.coord.contract import Put, StoredKey
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    CaptureInfo,
    CurrentLog,
    FeedInfo,
    FeedStatus,
    UpstreamInfo,
    UpstreamPlacement,
)
from owner.placing import PlacementRefused, Placing, bound_ones, move, placements

KEYS = Keys()


class Fleet:
    """An upstream ``u`` of shards as the store knows it, and a changefeed of it."""

    def __init__(self, folder: Path) -> None:
        self.store = EmbeddedStore(folder / "meta.db", SystemClock())
        self.put(KEYS.capture("other"), CaptureInfo(id="other", address="h:1", ready=True))
        self.checkpoint(0)

    def put(self, key: str, value: Any) -> None:
        self.store.txn([], [Put(key, value.model_dump_json().encode())])

    def nodes(self, *names: str) -> UpstreamInfo:
        made = [UpstreamInfo(name=f"u.{n}", uri="mysql://h", kind="node") for n in names]
        info = UpstreamInfo(name="u", uri="", kind="shards", nodes=made)
        self.put(KEYS.upstream_info("u"), info)
        return info

    def checkpoint(self, ts: int) -> None:
        feed = FeedInfo(id="f", upstream="u", sink_uri="kafka://h/t", start_ts=5)
        self.put(KEYS.feed_info("f"), feed)
        self.put(KEYS.feed_status("f"), FeedStatus(checkpoint_ts=ts))

    def anchor(self, name: str, ts: int, log: str = "", **nodes: int) -> None:
        position = {"nodes": nodes, "last": {}} if nodes else {}
        Anchors(self.store, KEYS, name).add(ts, position, ts, {}, log=log)

    def bound(self, info: UpstreamInfo) -> bool:
        return bound_ones(self.store, KEYS, [info]) == {"u"}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    made.store.close()


def test_a_changefeed_below_all_anchors_binds_a_server_to_its_log(fleet: Fleet) -> None:
    """One that begins where the log still is, while others, hence anchors, have gone on."""
    info = UpstreamInfo(name="u", uri="mysql://h")
    fleet.put(KEYS.upstream_info("u"), info)
    fleet.anchor("u", 40)
    fleet.checkpoint(50)
    assert not fleet.bound(info)
    fleet.checkpoint(30)
    assert fleet.bound(info)
    placed = UpstreamPlacement(upstream="u", capture="gone", number=1)
    fleet.put(KEYS.placement("u"), placed)
    with pytest.raises(PlacementRefused, match="could not begin low enough"):
        move(fleet.store, KEYS, "u", "other", SystemClock())


def test_what_binds_shards_to_their_log(fleet: Fleet) -> None:
    info = fleet.nodes("n1", "n2")
    for name in ("u.n1", "u.n2"):
        fleet.anchor(name, 10)
    fleet.checkpoint(50)
    assert fleet.bound(info)
    fleet.anchor("u", 20, n1=20, n2=20)
    assert not fleet.bound(info)
    fleet.checkpoint(19)
    assert fleet.bound(info)
    # A node that has come since comes once more, from where its first log began.
    fleet.checkpoint(50)
    info = fleet.nodes("n1", "n2", "n3")
    assert fleet.bound(info)
    fleet.anchor("u.n3", 15)
    assert not fleet.bound(info)
    # One that has left cannot be asked, until all that is needed lies above that.
    fleet.anchor("u", 60, log="l", n1=60, n3=60)
    info = fleet.nodes("n1", "n3")
    assert fleet.bound(info)
    fleet.put(KEYS.placement("u"), UpstreamPlacement(upstream="u", capture="gone", number=1))
    with pytest.raises(PlacementRefused, match="could not begin low enough"):
        move(fleet.store, KEYS, "u", "other", SystemClock())
    fleet.checkpoint(60)
    assert not fleet.bound(info)
    assert move(fleet.store, KEYS, "u", "other", SystemClock()).capture == "other"


def test_what_is_bound_is_asked_of_no_more_than_may_go(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner looks each second: upstreams that are well where they are cost no more."""
    store, read = fleet.store, list[str]()
    kept = store.range

    def counted(prefix: str) -> tuple[int, Sequence[StoredKey]]:
        read.extend([prefix] if "anchor" in prefix else [])
        return kept(prefix)

    monkeypatch.setattr(store, "range", counted)
    fleet.put(KEYS.capture("has"), CaptureInfo(id="has", address="h:2", ready=True))
    for name in ("u", "v", "w"):
        fleet.put(KEYS.upstream_info(name), UpstreamInfo(name=name, uri="mysql://h"))
        placed = UpstreamPlacement(upstream=name, capture="has", number=1)
        fleet.put(KEYS.placement(name), placed)
        fleet.put(KEYS.current_log(name), CurrentLog(log="l", capture="has"))
        store.txn([], [Put(KEYS.puller(name), b"has"), Put(KEYS.owner, b"has")])
    fleet.anchor("u", 40)
    fleet.checkpoint(30)
    entry = store.get(KEYS.owner)
    assert entry is not None
    read.clear()
    calm = Placing(store, KEYS, "has", entry.create_revision, SystemClock(), Parts(), 0)
    calm.turn()
    assert read == []
    # Three at one are uneven; the first by name is bound, so another one goes.
    evens = Placing(store, KEYS, "has", entry.create_revision, SystemClock(), Parts(), 0.001)
    while all(one.capture == "has" for one in placements(store, KEYS).values()):
        evens.turn()
    there = {name for name, one in placements(store, KEYS).items() if one.capture == "other"}
    assert there == {"v"}
    assert read == [KEYS.anchor_prefix("u"), KEYS.anchor_prefix("v")]
