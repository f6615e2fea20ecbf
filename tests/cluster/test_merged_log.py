"""The merged log of a distributed database's nodes: the order of the merge, whole, at any kill."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdc.base.nodes import node_of, plain
from cdc.base.position import Position
from cdc.base.vtso import VTso, ts_of
from cdc.binlog.query import Query
from cdc.changelog import node_logs
from cdc.changelog.index import LAST_OF_TRANSACTION
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.origin import Pin, pinned
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.vtso_marks import vtso_at
from cdc.changelog.writer import LogWriter
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.errors import MergeBranchMissing, MergeHeartbeatIncomplete, MergeXaBroken
from cdc.merge.items import NodeItems
from cdc.source.cluster_merging import ClusterMerging, ClusterPosition
from cdc.source.errors import TransactionMoved
from cdc.source.merged_anew import begin_anew
from cdc.source.merged_rows import NodeLog
from cdc.source.merging import position_of
from tests import seeds
from tests.changelog.logs import StillClock
from tests.cluster.conftest import NAMES, Recorded, coordinator_with, merged
from tests.cluster.coordinator import ACCOUNTS, START
from tests.cluster.reading import Books, changes_in
from tests.merge.bank import Change, Part
from tests.seeds import drawn

Moved = tuple[int, Change]  # node, change


class MergedLog:
    """A merged log over what was recorded."""

    def __init__(
        self,
        recorded: Recorded,
        folder: Path,
        carrier: str = "timestamp",
        after: tuple[int, dict[str, Any]] | None = None,
        pins: Sequence[Pin] = (),
        folders: Sequence[Path] | None = None,
    ) -> None:
        """``after``: the ts and position of the log whose place it takes.

        ``folders``: logs of the nodes, those that were recorded unless told otherwise.
        """
        self.recorded, self.folder, self.pins = recorded, folder, pins
        self.folders = recorded.folders if folders is None else folders
        folder.mkdir(exist_ok=True)
        self.coordinator = coordinator_with(carrier)
        places = [
            NodeFolder(n, os.path.relpath(f, folder))
            for n, f in zip(NAMES, self.folders, strict=True)
        ]
        node_logs.save(folder, places)
        begins = {}
        for name, path in zip(NAMES, self.folders, strict=True):
            with closing(ChangeLog.open(path)) as log:
                begins[name] = log.state.first_ts
        with self.writer() as writer:
            if after is None:
                writer.begin(min(begins.values()), position_of(begins))
                return
            nodes = [(n, f, begins[n]) for n, f in zip(NAMES, self.folders, strict=True)]
            begin_anew(writer, folder, after[0], {}, after[1], nodes)

    def writer(self) -> LogWriter:
        settings = ChangelogSettings(free_space_reserve_bytes=0, keep_s=0)
        return LogWriter.open(self.folder, settings, StillClock())

    def merge(self, steps: int = 1 << 30, *, batch_rows: int = 200_000) -> bool:
        """So many steps of a writer that is opened anew; whether there is more."""
        with ExitStack() as stack:
            writer = stack.enter_context(self.writer())
            logs = [
                NodeLog(n, stack.enter_context(closing(ChangeLog.open(f))))
                for n, f in zip(NAMES, self.folders, strict=True)
            ]
            merging = ClusterMerging(
                writer, logs, 50_000, self.coordinator, pins=self.pins, batch_rows=batch_rows
            )
            more = True
            while steps and more:
                more = merging.step()
                steps -= 1
            node, behind_ms = merging.behind_ms()
            self.waits_for, self.behind_ms = node.name, behind_ms
        return more

    def marks(self) -> list[tuple[int, VTso, int]]:
        """Ts, virtual TSO and number of branches of each transaction, as they are marked."""
        with closing(ChangeLog.open(self.folder)) as log:
            found = log.marks(log.state.first_ts, log.state.resolved_ts)
            runs = log.runs(Position(log.state.first_ts), Position(log.state.resolved_ts))
            ddls = log.ddls(log.state.first_ts, log.state.resolved_ts)
        ts = found.commit_ts.tolist()
        assert ts == sorted({*runs.commit_ts.tolist(), *ddls.commit_ts.tolist()})
        names = [vtso_at(found, at) for at in ts]
        assert None not in names
        return [
            (at, name, n)
            for at, name, n in zip(ts, names, found.rows.tolist(), strict=True)
            if name
        ]

    def read(self) -> list[tuple[int, list[Moved]]]:
        """What moves money, by ts, in the order of the rows; each run is checked."""
        found: dict[int, list[Moved]] = {}
        with closing(ChangeLog.open(self.folder)) as log:
            runs = log.runs(Position(log.state.first_ts), Position(log.state.resolved_ts))
            log.verify(runs)
            assert not {e.name for e in log.tables.values()} & {"__cdc_heartbeat__"}
            names = {}
            for i in range(len(runs)):
                ts, entry = int(runs.commit_ts[i]), log.tables[int(runs.table[i])]
                if entry.name.startswith("accounts_"):
                    node = NAMES.index(node_of(entry.schema))
                    assert entry.name == f"accounts_{node}"
                    moved = changes_in(log.event(runs.slice(i, i + 1)))
                    found.setdefault(ts, []).extend((node, change) for change in moved)
                name = int(runs.gtid_source[i]), int(runs.gtid_seq[i])
                assert names.setdefault(ts, name) == name
            last = np.flatnonzero(runs.flags & LAST_OF_TRANSACTION)
            np.testing.assert_array_equal(
                last, np.flatnonzero(np.append(np.diff(runs.commit_ts) > 0, True)[: len(runs)])
            )
        return list(found.items())


def expected(recorded: Recorded) -> list[tuple[Part, list[Moved]]]:
    """The same out of the pure order, and what the nodes' logs have at its places."""
    books = Books(recorded.cluster, recorded.folders)
    found = []
    for parts in merged(recorded.first):
        moved = [(p[0], change) for p in parts for change in books.changes[p[0], p[1]]]
        if moved:
            found.append((parts[0], moved))
    return found


def torn(transactions: Sequence[tuple[int, list[Moved]]]) -> int:
    """After how many transactions money is lost, or was not what the row says that it was."""
    balances = [[START] * ACCOUNTS for _ in NAMES]
    whole, wrong = START * ACCOUNTS * len(NAMES), 0
    for _, moved in transactions:
        for node, (account, before, after) in moved:
            wrong += balances[node][account] != before
            balances[node][account] = after
        wrong += sum(map(sum, balances)) != whole
    return wrong


@pytest.fixture(scope="module")
def whole(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> MergedLog:
    """Return a log that was merged in one go."""
    made = MergedLog(recorded, tmp_path_factory.mktemp("whole"))
    made.merge()
    return made


def test_transactions_are_whole_and_in_the_clusters_order(
    recorded: Recorded, whole: MergedLog
) -> None:
    found, wanted = whole.read(), expected(recorded)
    assert [moved for _, moved in found] == [moved for _, moved in wanted]
    assert len(found) > 200
    assert torn(found) == 0
    assert sum(len({node for node, _ in moved}) > 1 for _, moved in found) > 100
    # A ts is that of the TSO's moment, or the next that is free.
    ts = [one[0] for one in found]
    assert ts == sorted(set(ts))
    late = [t - ts_of(part[2]) for t, (part, _) in zip(ts, wanted, strict=True)]
    assert min(late) >= 0
    assert max(late) < 1 << 18


def test_the_order_begins_behind_the_first_heartbeat_of_all(
    recorded: Recorded, whole: MergedLog
) -> None:
    first = min(recorded.cluster.journal.heartbeats)
    tso = recorded.cluster.journal.distributed[first][0]
    with closing(ChangeLog.open(whole.folder)) as log:
        assert log.state.first_ts == ts_of(tso)
        snapshot = log.snapshot_at(log.state.first_ts)
        assert "before the order begins" in str(snapshot)
        said = [
            Query.parse(event[19:-4])
            for _, event in log.statements(log.state.first_ts, log.state.resolved_ts)
        ]
        assert [(node_of(q.schema), q.sql) for q in said] == [
            ("n1", "CREATE TABLE bank.other (id INT PRIMARY KEY)")
        ]
        assert "other" not in str(snapshot["databases"])
        assert plain(said[0].schema) == ""
        # Where each node has the schema that it has at the end.
        at = ClusterPosition.of(log.state.position, 3)
    for name, path in zip(NAMES, recorded.folders, strict=True):
        with closing(ChangeLog.open(path)) as node:
            ddls = node.ddls(node.state.first_ts, node.state.resolved_ts)
            assert at.schema[name] >= max(ddls.commit_ts.tolist(), default=0)


@pytest.mark.parametrize("carrier", drawn(["timestamp", "commit-log"]))
def test_a_kill_at_any_step_changes_nothing(
    recorded: Recorded, whole: MergedLog, tmp_path: Path, carrier: str
) -> None:
    chosen = random.Random(f"{seeds.seed()} {carrier}")
    made, wanted, kills = MergedLog(recorded, tmp_path, carrier), whole.read(), 0
    names = whole.marks()
    while True:
        # Each time all that was read and not committed is forgotten.
        more = made.merge(chosen.randint(3, 6), batch_rows=chosen.choice((20, 40, 60)))
        found = made.read()
        assert found == wanted[: len(found)]
        marks = made.marks()
        assert marks == names[: len(marks)]
        if not more:
            break
        kills += 1
    assert (found, marks) == (wanted, names)
    assert kills > 3


@pytest.mark.parametrize("carrier", drawn(["timestamp", "commit-log"]))
def test_a_log_in_the_place_of_another_has_the_same_order_and_ts(
    recorded: Recorded, whole: MergedLog, tmp_path: Path, carrier: str
) -> None:
    chosen = random.Random(f"{seeds.seed()} anew {carrier}")
    made, wanted, tried = MergedLog(recorded, tmp_path / "lost", carrier), whole.read(), 0
    while made.merge(chosen.randint(3, 12), batch_rows=40):
        with closing(ChangeLog.open(made.folder)) as log:
            ts, position = log.state.resolved_ts, log.state.position
        if "stand" not in position:
            continue
        tried += 1
        again = MergedLog(recorded, tmp_path / f"anew-{tried}", carrier, (ts, position))
        while again.merge(chosen.randint(5, 50), batch_rows=chosen.choice((50, 1000))):
            pass
        assert again.read() == [one for one in wanted if one[0] > ts]
        assert again.marks() == [one for one in whole.marks() if one[0] > ts]
    assert tried > 3


@pytest.mark.parametrize("carrier", ["timestamp", "commit-log"])
def test_logs_of_nodes_may_begin_amid_prepared_transactions(
    recorded: Recorded, whole: MergedLog, tmp_path: Path, carrier: str
) -> None:
    """Once all of these were merged: where the log of all has passed the anchors."""
    chosen = random.Random(f"{seeds.seed()} amid {carrier}")
    made, wanted, places = MergedLog(recorded, tmp_path / "lost", carrier), whole.read(), []
    while made.merge(chosen.randint(3, 8), batch_rows=60):
        with closing(ChangeLog.open(made.folder)) as log:
            place = (log.state.resolved_ts, log.state.position)
        # A few steps need not commit anything.
        if "stand" in place[1] and place not in places:
            places.append(place)
    passed = {n: anchor.ts for n, anchor in zip(NAMES, recorded.anchors, strict=True)}

    def same_from(ts: int, position: dict[str, Any]) -> bool:
        """Whether a log that begins anew there has what that of all has."""
        folder = tmp_path / f"anew-{len(list(tmp_path.iterdir()))}"
        again = MergedLog(recorded, folder, carrier, (ts, position), folders=recorded.anew)
        try:
            while again.merge(chosen.randint(10, 60), batch_rows=chosen.choice((50, 1000))):
                pass
        except (MergeXaBroken, MergeBranchMissing, MergeHeartbeatIncomplete):
            return False
        marks = [one for one in whole.marks() if one[0] > ts]
        return again.marks() == marks and again.read() == [one for one in wanted if one[0] > ts]

    behind, before = [], []
    for ts, position in places:
        over = all(position["nodes"][name] >= at for name, at in passed.items())
        (behind if over else before).append((ts, position))
    # However slow the machine is, and so however much there is: a few of them, the first always.
    for ts, position in [behind[0], *chosen.sample(behind[1:], min(5, len(behind) - 1))]:
        assert same_from(ts, position)
    # Control: what lies before a log's begin is not in it.
    assert not same_from(*before[0])


def test_another_order_than_what_was_delivered_is_told(
    recorded: Recorded, whole: MergedLog, tmp_path: Path
) -> None:
    with closing(ChangeLog.open(whole.folder)) as log:
        begin, ts = log.state.first_ts, [one[0] for one in whole.read()]
        named = {at: log.transaction_at(at) for at in (ts[20], ts[40], ts[60] + 1)}
    known = [(at, name) for at, name in named.items() if name is not None]
    _, pins = pinned(known, begin)
    assert len(pins) == 3
    right = MergedLog(recorded, tmp_path / "right", pins=pins)
    right.merge(batch_rows=50)
    assert right.read() == whole.read()
    other = pins[0].name._replace(sequence=pins[1].name.sequence, source=pins[1].name.source)
    for wrong in (
        [replace(pins[0], name=other)],
        [pins[0], replace(pins[1], name=pins[1].name._replace(ts=ts[40] - 1))],
        [replace(pins[0], floor=ts[21])],
    ):
        made = MergedLog(recorded, tmp_path / f"wrong-{len(list(tmp_path.iterdir()))}", pins=wrong)
        with pytest.raises(TransactionMoved):
            made.merge(batch_rows=50)
        # Nobody has seen any of it.
        assert all(at < wrong[-1].floor for at, _ in made.read())


def test_marks_are_what_the_coordinator_calls_its_transactions(
    recorded: Recorded, whole: MergedLog
) -> None:
    marks, journal = whole.marks(), recorded.cluster.journal
    names = [name for _, name, _ in marks]
    assert all(a < b and str(a) < str(b) for a, b in pairwise(names))
    assert {VTso.parse(str(name)) for name in names} == set(names)
    found = {name.transaction: (name.tso, n) for _, name, n in marks if not name.sequence}
    # Heartbeats have no rows of anybody.
    assert found == {
        transaction: (tso, len(nodes))
        for transaction, (tso, nodes) in journal.distributed.items()
        if transaction not in journal.heartbeats
    }
    assert {name.node for name in names if name.sequence} == {1, 2, 3}


def test_who_stays_prepared_holds_all_and_is_named(
    recorded: Recorded, whole: MergedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, lost = NodeItems.take, []

    def undecided(self: NodeItems, *how: object) -> np.ndarray:
        items = take(self, *how)  # type: ignore[arg-type]
        commits = np.flatnonzero(items[:, K.KIND] == K.COMMITTED)
        if self.name != "n2" or lost or len(commits) < 20:
            return items
        lost.append(int(items[commits[len(commits) // 4], K.TSO]))
        return np.delete(items, commits[len(commits) // 4], axis=0)

    monkeypatch.setattr(NodeItems, "take", undecided)
    made = MergedLog(recorded, tmp_path)
    made.merge()
    assert made.waits_for == "n2"
    assert made.behind_ms > 1000
    found = made.read()
    assert found == whole.read()[: len(found)]
    assert 0 < len(found) < len(whole.read()) / 2


def test_without_gluing_transactions_are_torn(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = NodeItems.take

    def apart(self: NodeItems, *how: object) -> np.ndarray:
        items = take(self, *how)  # type: ignore[arg-type]
        # As if each branch were a transaction of its own node.
        items[(items[:, K.FLAGS] & K.HEARTBEAT) == 0, K.TSO] = 0
        return items

    monkeypatch.setattr(NodeItems, "take", apart)
    made = MergedLog(recorded, tmp_path)
    made.merge()
    assert torn(made.read()) > 100


def test_a_branch_that_is_missing_stops_the_merge(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats, lost = recorded.cluster.journal.heartbeats, []
    take = NodeItems.take

    def without_one(self: NodeItems, *how: object) -> np.ndarray:
        items = take(self, *how)  # type: ignore[arg-type]
        ours = (items[:, K.KIND] == K.COMMITTED) & (items[:, K.TSO] > 0)
        commits = np.flatnonzero(ours & ~np.isin(items[:, K.TXN], list(beats)))
        if self.name != "n2" or lost or len(commits) < 50:
            return items
        at = int(commits[len(commits) // 2])
        lost.append(int(items[at, K.TXN]))
        items[at, K.KIND] = K.ROLLED_BACK
        return items

    monkeypatch.setattr(NodeItems, "take", without_one)
    made = MergedLog(recorded, tmp_path, "commit-log")
    with pytest.raises(MergeBranchMissing) as error:
        made.merge(batch_rows=2000)
    assert f"{lost[0]:x}" in str(error.value)
