"""Where the logs of a cluster begin anew, and that nothing but what is needed stays of anchors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.position import LastOfNode, TransactionName
from cdc.changelog import names, origin
from cdc.changelog.origin import Origin, Pin
from cdc.coord.anchors import Anchors
from cdc.coord.contract import Unchanged
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.log_begin import begin_at
from cdc.coord.messages import Anchor, UpstreamInfo
from cdc.server.cluster_replacement import ClusterReplacement, NodeLogGone, check_cuts
from cdc.server.log_replacement import LogReplacement, UpstreamLogLost, UpstreamMoved

KEYS = Keys()
INFO = UpstreamInfo(
    name="bank",
    uri="",
    kind="cluster",
    nodes=[UpstreamInfo(name=f"bank.n{i}", uri="mysql://h", kind="node") for i in (1, 2)],
)


def _anchor(ts: int, **nodes: int) -> Anchor:
    position = {"nodes": nodes} if nodes else {"file": "f", "pos": ts}
    return Anchor(ts=ts, position=position, schema_ts=ts, chunks=1)


def test_logs_begin_below_what_is_needed_and_below_what_is_merged() -> None:
    merged = [_anchor(10, n1=8, n2=9), _anchor(20, n1=18, n2=19), _anchor(30, n1=28, n2=29)]
    nodes = {"bank.n1": ("n1", [_anchor(5), _anchor(18)]), "bank.n2": ("n2", [_anchor(7)])}
    at = begin_at(25, merged, nodes)
    assert at is not None
    assert at.merged.ts == 20
    assert {name: a.ts for name, a in at.nodes.items()} == {"bank.n1": 18, "bank.n2": 7}
    at = begin_at(19, merged, nodes)
    assert at is not None
    assert (at.merged.ts, at.nodes["bank.n1"].ts) == (10, 5)
    assert begin_at(9, merged, nodes) is None
    # Where a node has none that is low enough, an earlier place does not help either.
    assert begin_at(99, merged, nodes | {"bank.n2": ("n2", [_anchor(30)])}) is None
    # A node that came above the place comes once more, from where its first log began.
    came = {"bank.n3": ("n3", [_anchor(17), _anchor(19).model_copy(update={"log": "l"})])}
    at = begin_at(19, merged, nodes | came)
    assert at is not None
    assert (at.merged.ts, at.nodes["bank.n3"].ts) == (10, 17)
    came["bank.n3"][1].pop(0)
    assert begin_at(19, merged, nodes | came) is None
    # One of a node that has left says nothing of what it had.
    assert begin_at(99, [_anchor(10, n1=9, n2=9, n3=9)], nodes) is None
    # One that was written before anchors said what is merged is none.
    assert begin_at(99, [_anchor(10)], nodes) is None


class Maker:
    """Makes folders that look like logs."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []
        self.nodes: list[tuple[str, Path, int]] = []

    def begin(self, folder: Path, anchor: Anchor, snapshot: dict[str, Any], o: Origin) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / names.MANIFEST).touch()
        origin.save(folder, o)
        self.made.append((folder.name, anchor.ts))

    def begin_merged(
        self,
        folder: Path,
        anchor: Anchor,
        snapshot: dict[str, Any],
        o: Origin,
        nodes: list[tuple[str, Path, int]],
    ) -> None:
        self.begin(folder, anchor, snapshot, o)
        self.nodes = nodes


class Stage:
    def __init__(self, folder: Path) -> None:
        self.store = EmbeddedStore(folder / "meta.db", SystemClock())
        self.folder = folder
        for name, anchors in (
            ("bank", [_anchor(10, n1=8, n2=9), _anchor(20, n1=18, n2=19)]),
            ("bank.n1", [_anchor(5), _anchor(15), _anchor(25)]),
            ("bank.n2", [_anchor(7), _anchor(22)]),
        ):
            for one in anchors:
                self.anchors(name).add(one.ts, one.position, one.ts, {"of": name})
            self.anchors(name).make_current(f"lost {name}", "gone", 0)

    def anchors(self, name: str) -> Anchors:
        return Anchors(self.store, KEYS, name)

    def log(self, name: str) -> Path:
        upstream, _, node = name.partition(".")
        return self.folder / upstream / ("nodes/" + node if node else "0")

    def capture(self, name: str) -> tuple[ClusterReplacement, Maker]:
        maker = Maker()
        logs = LogReplacement(self.store, KEYS, name, maker, self.log)  # type: ignore[arg-type]
        made = ClusterReplacement(
            self.store,
            KEYS,
            name,
            maker,
            self.log,
            logs,  # type: ignore[arg-type]
        )
        return made, maker


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_all_logs_are_made_anew_or_none(stage: Stage) -> None:
    one, maker = stage.capture("a")
    one.ensure(INFO, [], used=False)
    assert maker.made == [("n1", 15), ("n2", 7), ("0", 20)]
    assert [(n, ts) for n, _, ts in maker.nodes] == [("n1", 15), ("n2", 7)]
    # Later anchors are names of logs that are gone; what is left says what its nodes' begins are.
    (left,) = stage.anchors("bank").all()
    assert (left.ts, left.position["nodes"]) == (20, {"n1": 15, "n2": 7})
    assert [a.ts for a in stage.anchors("bank.n1").all()] == [5, 15]
    assert [a.ts for a in stage.anchors("bank.n2").all()] == [7]
    assert one.anchored_ts(INFO, "n1") == 15
    # They stand: nobody makes them again, whoever comes.
    one.ensure(INFO, [], used=True)
    assert len(maker.made) == 3
    # One of a node is lost: all begin once more, but not while others are written.
    origin.save(stage.log("bank.n2"), Origin.new())
    with pytest.raises(NodeLogGone):
        one.ensure(INFO, [], used=True)
    assert len(maker.made) == 3
    one.ensure(INFO, [], used=False)
    assert maker.made[3:] == maker.made[:3]
    logs = {n: stage.anchors(n).current()[1] for n in ("bank", "bank.n1", "bank.n2")}
    assert {n: origin.load(stage.log(n)).log for n in logs} == {  # type: ignore[union-attr]
        n: log.log for n, log in logs.items() if log is not None
    }


def test_one_that_died_while_it_made_them_is_followed(stage: Stage) -> None:
    """Whatever it has written to the store, the next begins at the same place."""
    one, maker = stage.capture("a")
    txn = stage.store.txn
    for allowed in range(4):
        left = iter(range(allowed))

        def dies(*args: Any, left: Iterator[int] = left) -> bool:
            if next(left, None) is None:
                raise RuntimeError("killed")
            return txn(*args)

        stage.store.txn = dies  # type: ignore[assignment]
        with pytest.raises(RuntimeError, match="killed"):
            one.ensure(INFO, [], used=False)
        stage.store.txn = txn  # type: ignore[method-assign]
        assert maker.made[-3:] == [("n1", 15), ("n2", 7), ("0", 20)]
    other, again = stage.capture("b")
    other.ensure(INFO, [], used=False)
    assert again.made == maker.made[:3]
    current = stage.anchors("bank").current()[1]
    assert current is not None
    assert current.capture == "b"


def test_who_does_not_have_the_cluster_makes_nothing_of_it(stage: Stage) -> None:
    one, _ = stage.capture("a")
    before = stage.anchors("bank").all()
    with pytest.raises(UpstreamMoved):
        one.ensure(INFO, [Unchanged(KEYS.puller("bank"), 7)], used=False)
    assert stage.anchors("bank").all() == before
    current = stage.anchors("bank").current()[1]
    assert current is not None
    assert current.log == "lost bank"
    stage.anchors("bank").clear()
    with pytest.raises(UpstreamLogLost):
        one.ensure(INFO, [], used=False)


def test_shards_begin_where_an_anchor_says_how_far_each_of_them_is(stage: Stage) -> None:
    shards = INFO.model_copy(update={"kind": "shards"})
    one, maker = stage.capture("a")
    # What an earlier version wrote does not say it.
    with pytest.raises(UpstreamLogLost):
        one.ensure(shards, [], used=False)
    last = {"n1": [17, "n1:0-1", 5, False], "n2": [6, "n2:0-2", 9, False]}
    position = {"nodes": {"n1": 18, "n2": 19}, "last": last, "newest": [16, "n1:0-1", 5, 1]}
    stage.anchors("bank").add(17, position, 17, {"of": "bank"})
    one.ensure(shards, [], used=False)
    assert maker.made == [("n1", 15), ("n2", 7), ("0", 17)]
    (left,) = stage.anchors("bank").all()
    # Of the first node what was merged is read once more; of the other nothing is.
    assert left.position == position | {"nodes": {"n1": 15, "n2": 7}, "again": ["n1"]}


def test_positions_without_a_cut_are_no_place_for_shards_to_go_to() -> None:
    name = TransactionName(50, "n1:0-1", 6, 1)
    known = Origin.new(17, (Pin(name, 50),))
    with pytest.raises(UpstreamLogLost) as raised:
        check_cuts("bank", known)
    assert raised.value.position == "ts 50"
    cut = (LastOfNode("n1:0-1", 6),)
    check_cuts("bank", Origin.new(17, (Pin(name._replace(cut=cut), 50),)))
