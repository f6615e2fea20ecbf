"""Upstreams that go from capture to capture: never at two, and let go before another takes them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.base.parts import Parts
from cdc.base.ts import Ts
from cdc.changelog import names
from cdc.coord.contract import Put
from cdc.coord.draining import CaptureNotFound
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    Assignment,
    CaptureInfo,
    FeedInfo,
    FeedState,
    UpstreamInfo,
    UpstreamPlacement,
)
from cdc.coord.stored import read
from cdc.server.log_source import OnStatus
from cdc.server.merging import Statuses
from cdc.server.metrics import Metrics
from cdc.server.needed import Needed
from cdc.server.placed import PlacedHere
from cdc.server.upstreams import Upstreams
from cdc.source.anchoring import Anchoring
from owner import placing
from owner.placing import PlacementRefused, Placing
from tests.seeds import seed
from tests.server.failing_store import FailingStore
from tests.server.test_supervision import Endless
from tests.waiting import until

KEYS = Keys()
CLOCK = SystemClock()


class Watched(Endless):
    """A source that notes who pulls what, and whether two ever pull the same."""

    def __init__(self, capture: str, pulled: dict[str, set[str]], twice: list[str]) -> None:
        super().__init__()
        self._capture, self._pulled, self._twice = capture, pulled, twice

    def pull(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        anchoring: Anchoring,
    ) -> None:
        self._watch(info.name, stop)

    def merge(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        keep: Callable[[Mapping[str, Ts]], None],
        statuses: Statuses,
        anchoring: Anchoring,
    ) -> None:
        """As of one node."""
        self._watch(info.name, stop)

    def _watch(self, name: str, stop: threading.Event) -> None:
        at = self._pulled.setdefault(name, set())
        at.add(self._capture)
        while not stop.wait(0.002):
            if len(at) > 1:
                self._twice.append(name)
        at.discard(self._capture)


class One:
    """A capture, as far as it pulls; its processor is the set of changefeeds that it runs."""

    def __init__(self, store: FailingStore, name: str, folder: Path, stage: Stage) -> None:
        self.name, self.parts = name, Parts()
        self._store = store
        self.lease = store.grant(60)
        info = CaptureInfo(id=name, address="127.0.0.1:1", ready=True)
        store.txn([], [Put(KEYS.capture(name), info.model_dump_json().encode(), self.lease)])
        self.placed = PlacedHere(store, KEYS, name, lambda _: 1, CLOCK, wait_s=30)
        self.placed.by(self, self, self)
        self.upstreams = Upstreams(
            store,
            KEYS,
            name,
            self.lease,
            Watched(name, stage.pulled, stage.twice),
            lambda n: folder / n / "0",
            CLOCK,
            Metrics(CLOCK, self.parts),
            self.parts,
            self.placed,
        )
        self.upstreams.start()

    def let_go(self) -> None:
        """No turns here."""

    def forget(self, upstream: str) -> None:
        """No logs here."""

    @property
    def running(self) -> set[str]:
        """What it was assigned."""
        entries = self._store.range(KEYS.assignments_prefix(self.name))[1]
        return {read(e, Assignment).feed for e in entries}

    def stop(self) -> None:
        """End it, session and all."""
        self.placed.stop()
        self.upstreams.stop()
        self._store.revoke(self.lease)


class Stage:
    """A store, captures, and three upstreams."""

    def __init__(self, folder: Path) -> None:
        self.store = FailingStore(folder / "meta.db")
        self.pulled: dict[str, set[str]] = {}
        self.twice: list[str] = []
        for name in "uvw":
            (folder / name / "0").mkdir(parents=True)
            (folder / name / "0" / names.MANIFEST).touch()
            info = UpstreamInfo(name=name, uri="mysql://h")
            self.store.txn([], [Put(KEYS.upstream_info(name), info.model_dump_json().encode())])
        self.captures = {n: One(self.store, n, folder, self) for n in "abc"}

    def place(self, upstream: str, capture: str) -> None:
        """Write it down."""
        _, revision = placing.of(self.store, KEYS, upstream)
        made = UpstreamPlacement(upstream=upstream, capture=capture, number=revision + 1)
        put = Put(KEYS.placement(upstream), made.model_dump_json().encode())
        self.store.txn([], [put])

    def at(self, upstream: str) -> set[str]:
        """Who pulls it."""
        return set(self.pulled.get(upstream, ()))

    def close(self) -> None:
        """End all."""
        self.store.broken = False
        for capture in self.captures.values():
            capture.stop()
        self.store.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


def test_however_upstreams_are_moved_no_two_captures_pull_one(stage: Stage) -> None:
    chosen = random.Random(seed())
    for _ in range(60):
        stage.place(chosen.choice("uvw"), chosen.choice("abc"))
        time.sleep(chosen.choice((0, 0.001, 0.02)))
    for upstream, capture in zip("uvw", "cab", strict=True):
        stage.place(upstream, capture)
        until(lambda u=upstream, c=capture: stage.at(u) == {c}, f"{upstream} is at {capture}")
    assert not stage.twice
    for capture in stage.captures.values():
        assert len(capture.upstreams.claims()) == 1


def test_delivery_ends_before_another_capture_begins(stage: Stage) -> None:
    stage.place("u", "a")
    until(lambda: stage.at("u") == {"a"}, "it is pulled")
    a = stage.captures["a"]
    until(lambda: "u" in a.upstreams.claims(), "it is claimed")
    held = a.upstreams.claims()["u"]
    # It needs nothing of the log, which is an empty file.
    state = FeedState.FINISHED
    info = FeedInfo(id="f", upstream="u", sink_uri="kafka://h/t", start_ts=1, state=state)
    told = Assignment(feed="f", epoch=1, run=True, checkpoint_ts=1, judged_ts=1, barrier_ts=1)
    assert stage.store.txn(
        [held],
        [
            Put(KEYS.feed_info("f"), info.model_dump_json().encode()),
            Put(KEYS.assignment("a", "f"), told.model_dump_json().encode()),
        ],
    )
    # The store cannot be written just when it is to let go: it is tried again.
    stage.place("u", "b")
    stage.store.broken = True
    time.sleep(0.1)
    assert stage.at("b") == set()
    stage.store.broken = False
    until(lambda: stage.at("u") == {"b"}, "it has moved")
    assert a.running == set()
    assert not stage.twice
    # What a capture that had it writes late changes nothing.
    assert not stage.store.txn([held], [Put(KEYS.feed_status("f"), b"late")])
    until(lambda: "u" in stage.captures["b"].upstreams.claims(), "it is claimed")
    assert a.upstreams.claims() == {}


def test_a_log_that_is_disowned_is_made_anew_beside_the_others(stage: Stage) -> None:
    a = stage.captures["a"]
    for upstream in "uv":
        stage.place(upstream, "a")
        until(lambda u=upstream: stage.at(u) == {"a"}, "it is pulled")
    until(lambda: a.upstreams.claims().keys() == {"u", "v"}, "both are claimed")
    before = a.upstreams.claims()
    a.upstreams.make_log_anew("u")
    # There is no anchor at which another log could begin, which is seen only by who looks for one.
    until(
        lambda: (e := a.upstreams.status("u").error) and e.code == "TG:ErrUpstreamLogLost", "lost"
    )
    after = a.upstreams.claims()
    assert after["u"] != before["u"]
    assert after["v"] == before["v"]
    assert stage.at("v") == {"a"}


def test_nodes_go_with_their_upstream(stage: Stage, tmp_path: Path) -> None:
    names_of = ["s.n1", "s.n2", "s"]
    for name in names_of:
        (tmp_path / name / "0").mkdir(parents=True)
        (tmp_path / name / "0" / names.MANIFEST).touch()
    nodes = [UpstreamInfo(name=n, uri="mysql://h") for n in names_of[:2]]
    info = UpstreamInfo(name="s", uri="", kind="shards", nodes=nodes)
    stage.store.txn([], [Put(KEYS.upstream_info("s"), info.model_dump_json().encode())])
    for capture in "abca":
        stage.place("s", capture)
        for name in names_of:
            until(lambda n=name, c=capture: stage.at(n) == {c}, f"{name} is at {capture}")
    assert not stage.twice
    counts = {name: one.upstreams.counts() for name, one in stage.captures.items()}
    assert counts["b"] == {"held": 0, "coming": 0, "leaving": 0}
    assert counts["a"]["held"] == 1
    assert not stage.captures["a"].upstreams.handed_over()
    # The owner sees that it is bound to its log, and does not take it from there.
    members, upstreams = placing.look(stage.store, KEYS)
    upstreams = placing.with_bound(stage.store, KEYS, upstreams, {"s"})
    (found,) = (u for u in upstreams if u.name == "s")
    assert (found.bound, found.weight, found.capture) == (True, 2, "a")
    assert [m.id for m in members if "s" in m.logs] == ["a"]
    with pytest.raises(PlacementRefused):
        placing.move(stage.store, KEYS, "s", "b", CLOCK)


def test_the_owner_places_what_a_lost_capture_had(stage: Stage) -> None:
    store, lease = stage.store, stage.captures["c"].lease
    store.txn([], [Put(KEYS.owner, b"c", lease)])
    entry = store.get(KEYS.owner)
    assert entry is not None
    owner = Placing(store, KEYS, "c", entry.create_revision, CLOCK, Parts(), 0)
    owner.turn()
    until(lambda: all(len(stage.at(u)) == 1 for u in "uvw"), "all are pulled")
    assert {c for u in "uvw" for c in stage.at(u)} == set("abc"), "one at each"
    (lost,) = stage.at("u")
    if lost == "c":
        lost = next(c for u in "vw" for c in stage.at(u))
    stage.captures.pop(lost).stop()
    owner.turn()
    until(lambda: all(len(stage.at(u)) == 1 for u in "uvw"), "all are pulled again")
    assert not stage.twice
    # One that is not the owner any more changes nothing.
    store.revoke(lease)
    before = placing.placements(store, KEYS)
    owner.turn()
    assert placing.placements(store, KEYS) == before


def test_an_operator_moves_one(stage: Stage) -> None:
    made = placing.move(stage.store, KEYS, "u", "b", CLOCK)
    assert (made.number, made.reason) == (1, "asked")
    until(lambda: stage.at("u") == {"b"}, "it is there")
    assert placing.move(stage.store, KEYS, "u", "b", CLOCK) == made
    assert placing.move(stage.store, KEYS, "u", "a", CLOCK).number == 2
    with pytest.raises(CaptureNotFound):
        placing.move(stage.store, KEYS, "u", "nobody", CLOCK)
    drained = stage.captures["c"]
    stage.store.txn([], [Put(KEYS.drained("c"), b"", drained.lease)])
    with pytest.raises(PlacementRefused):
        placing.move(stage.store, KEYS, "u", "c", CLOCK)
    until(lambda: stage.at("u") == {"a"}, "it is there")


def test_rows_of_a_changefeed_are_delivered_before_its_upstream_goes(stage: Stage) -> None:
    store, lease = stage.store, stage.captures["c"].lease
    store.txn([], [Put(KEYS.owner, b"c", lease)])
    entry = store.get(KEYS.owner)
    assert entry is not None
    placing.move(store, KEYS, "u", "a", CLOCK)
    until(lambda: stage.at("u") == {"a"}, "it is there")
    drained = Put(KEYS.drained("a"), b"", stage.captures["a"].lease)
    store.txn([], [drained])
    owner = Placing(store, KEYS, "c", entry.create_revision, CLOCK, Parts(), 0)
    snapshot = {"snapshot": {"mode": "initial"}}
    feed = FeedInfo(
        id="f", upstream="u", sink_uri="blackhole://", config=snapshot, start_ts=1, snapshot_ts=9
    )
    paused = feed.model_copy(update={"state": FeedState.STOPPED})
    for made in (feed, paused):
        store.txn([], [Put(KEYS.feed_info("f"), made.model_dump_json().encode())])
        owner.turn()
        assert placing.placements(store, KEYS)["u"].capture == "a"
        with pytest.raises(PlacementRefused, match="rows that were there before"):
            placing.move(store, KEYS, "u", "b", CLOCK)
    done = feed.model_copy(update={"rows_delivered": True})
    store.txn([], [Put(KEYS.feed_info("f"), done.model_dump_json().encode())])
    owner.turn()
    assert placing.placements(store, KEYS)["u"].capture != "a"
