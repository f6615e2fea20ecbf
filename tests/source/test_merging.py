"""Logs of several nodes as one: order, bytes and ts, against a model without arrays."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cdc.base.nodes import node_of, plain, qualified
from cdc.base.position import Position
from cdc.binlog.query import Query
from cdc.changelog import node_logs
from cdc.changelog.errors import LogCollected, LogCorrupt
from cdc.changelog.node_logs import NodeFolder, place_of
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.snapshot import log as snapshot_log
from cdc.snapshot.log import SnapshotRows
from cdc.source import merging
from cdc.source.merging import Merging, NodeLog, position_of
from tests.changelog.logs import StillClock, ddl, dml, open_log

BEGIN = 100


@dataclass
class Made:
    """Logs of nodes, and what was written into each: (ts, a statement or the tables of runs)."""

    folder: Path
    names: tuple[str, ...]
    writers: dict[str, LogWriter] = field(default_factory=dict)
    written: dict[str, list[tuple[int, str | list[int]]]] = field(default_factory=dict)

    @property
    def merged(self) -> Path:
        return self.folder / "merged"

    def begin(self) -> None:
        for name in self.names:
            writer = open_log(self.folder / name, segment_bytes=4096, keep_s=0)
            for table in range(3):
                writer.table_id("d", f"t{table}", name.encode() + b"%d" % table)
            writer.begin(BEGIN, {})
            self.writers[name], self.written[name] = writer, []
        node_logs.save(self._made(), [NodeFolder(n, f"../{n}") for n in self.names])
        with self.writer() as writer:
            writer.begin(BEGIN, position_of(dict.fromkeys(self.names, BEGIN)))

    def _made(self) -> Path:
        self.merged.mkdir()
        return self.merged

    def writer(self) -> LogWriter:
        settings = ChangelogSettings(free_space_reserve_bytes=0, keep_s=0)
        return LogWriter.open(self.merged, settings, StillClock())

    def one(self, name: str, ts: int, *tables: int) -> None:
        dml(self.writers[name], ts, [(t, 2) for t in tables], tag=name.encode(), sequence=ts)
        self.written[name].append((ts, list(tables)))

    def statement(self, name: str, ts: int, text: str) -> None:
        ddl(self.writers[name], ts, text)
        self.written[name].append((ts, text))

    def commit(self, resolved: int, *names: str) -> None:
        for name in names or self.names:
            self.writers[name].commit(resolved, {})

    def merge(self, steps: int = 1 << 30, **settings: int) -> None:
        with self.writer() as writer:
            logs = [NodeLog(n, ChangeLog.open(self.folder / n)) for n in self.names]
            merging_ = Merging(writer, logs, 2000, **settings)
            while steps and merging_.step():
                steps -= 1
            for node in logs:
                node.log.close()

    def expected(self, resolved: int) -> list[tuple[int, str, str | list[int]]]:
        """(ts, node, what) of all that lies at or below the nodes' resolved ts, one by one."""
        every = [
            (ts, number, name, what)
            for number, name in enumerate(self.names)
            for ts, what in self.written[name]
            if ts <= resolved
        ]
        last, found = BEGIN, []
        for ts, _, name, what in sorted(every, key=lambda one: one[:2]):
            last = max(last + 1, ts)
            found.append((last, name, what))
        return found

    def read(self) -> list[tuple[int, str, str | list[int]]]:
        """The same, of the merged log; every run's bytes are compared with its node's log."""
        found: dict[int, tuple[str, str | list[int]]] = {}
        with closing(ChangeLog.open(self.merged)) as log:
            lo, hi = Position(log.state.first_ts), Position(log.state.resolved_ts)
            runs = log.runs(lo, hi)
            log.verify(runs)
            for i in range(len(runs)):
                ts, entry = int(runs.commit_ts[i]), log.tables[int(runs.table[i])]
                node = node_of(entry.schema)
                assert plain(entry.schema) == "d"
                assert entry.map_body == node.encode() + entry.name[1:].encode()
                assert log.event(runs.slice(i, i + 1)).count(node.encode()) == 1
                source = log.sources[int(runs.gtid_source[i])]
                assert source == f"{node}:file {int(runs.upstream_file[i])}"
                known = found.setdefault(ts, (node, []))
                assert known[0] == node
                assert isinstance(known[1], list)
                known[1].append(int(entry.name[1:]))
            for ts, event in log.statements(lo.ts, hi.ts):
                query = Query.parse(event[19:-4])
                assert ts not in found
                assert query.schema == qualified(node_of(query.schema), "")
                found[ts] = (node_of(query.schema), query.sql)
        return [(ts, *found[ts]) for ts in sorted(found)]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    found = Made(tmp_path, ("n1", "n2", "n3"))
    found.begin()
    return found


def fill(made: Made, seed: int, *, upto: int = 400) -> None:
    """Transactions and statements of all nodes, with many equal ts; commits in between."""
    chance = random.Random(seed)
    last = dict.fromkeys(made.names, BEGIN)
    for resolved in range(BEGIN + 20, upto + 1, 20):
        for name in made.names:
            for ts in range(last[name] + 1, resolved + 1):
                what = chance.random()
                if what < 0.05:
                    made.statement(name, ts, f"ALTER TABLE t{ts} ADD {name} INT")
                elif what < 0.4:
                    made.one(name, ts, *chance.sample(range(3), chance.randint(1, 3)))
            last[name] = resolved
            made.commit(resolved, name)


@pytest.mark.parametrize("seed", range(3))
def test_one_order_of_all_nodes_whatever_is_merged_when(made: Made, seed: int) -> None:
    fill(made, seed)
    chance = random.Random(seed)
    expected = made.expected(400)
    assert len(expected) > 200
    while True:
        # Each time the writer is opened anew, as after a kill; batches end inside transactions.
        made.merge(chance.randint(1, 3), batch_bytes=chance.choice((1, 300, 5000)))
        found = made.read()
        assert found == expected[: len(found)]
        if len(found) == len(expected):
            break
    with closing(ChangeLog.open(made.merged)) as log:
        assert log.state.segment > 1
        assert log.state.resolved_ts >= 400


def test_what_is_not_committed_is_merged_again_with_the_same_ts(made: Made) -> None:
    fill(made, 7)
    made.merge(2, batch_bytes=2000)
    before = made.read()
    with made.writer() as writer:
        logs = [NodeLog(n, ChangeLog.open(made.folder / n)) for n in made.names]
        one = Merging(writer, logs, 1 << 20)
        one._writer.commit = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore
        with pytest.raises(KeyboardInterrupt):
            one.step()
    assert made.read() == before
    made.merge()
    assert made.read() == made.expected(400)


def test_a_node_that_lags_holds_the_rest_and_loses_nothing(made: Made) -> None:
    made.one("n1", 110, 0)
    made.one("n2", 110, 1)
    made.one("n3", 109, 2)
    made.commit(120, "n1", "n2")
    made.merge()
    assert made.read() == []
    with closing(ChangeLog.open(made.merged)) as log:
        assert log.state.resolved_ts == BEGIN
    made.commit(110, "n3")
    made.merge()
    assert made.read() == [(109, "n3", [2]), (110, "n1", [0]), (111, "n2", [1])]
    with closing(ChangeLog.open(made.merged)) as log:
        assert log.state.resolved_ts == 111
    # What comes at a ts that is given already gets the next.
    made.one("n3", 111, 0)
    made.commit(120, "n3")
    made.merge()
    assert made.read()[3:] == [(112, "n3", [0])]


def test_without_the_sort_the_order_is_wrong(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(made, 1)

    def unsorted(
        ts: NDArray[np.int64], node: NDArray[np.int64], last: int, latest: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # As if the nodes' logs were laid one behind the other.
        begins = np.append(True, (np.diff(ts) != 0) | (np.diff(node) != 0))
        return np.arange(len(ts)), last + np.cumsum(begins)

    monkeypatch.setattr(merging, "in_order", unsorted)
    made.merge(batch_bytes=100_000)
    assert made.read() != made.expected(400)


def test_a_snapshot_lies_before_a_merged_log(made: Made, tmp_path: Path) -> None:
    with open_log(tmp_path / "rows") as rows:
        rows.table_id(qualified("n1", "d"), "t0", b"")
        dml(rows, BEGIN, [(0, 2)])
        rows.commit(BEGIN, {})
    made.one("n2", 110, 1)
    made.commit(120)
    made.merge()
    over = snapshot_log.open_log(made.merged, SnapshotRows(str(tmp_path / "rows"), BEGIN))
    with closing(over) as log:
        runs = log.runs(Position(0), Position(120))
        log.verify(runs)
        assert [log.tables[int(t)].schema for t in runs.table] == [
            qualified("n1", "d"), qualified("n2", "d"),
        ]  # fmt: skip
        assert b"n2" in log.event(runs.slice(1, 2))
        log.forget_below(120)


def test_a_nodes_log_keeps_what_the_merged_log_points_to(made: Made) -> None:
    fill(made, 3)
    made.merge(batch_bytes=2000)
    with made.writer() as writer:
        assert writer.collect(250)
        state = writer.state
    assert BEGIN < state.first_ts <= 250
    kept: dict[int, int] = {}
    for info in state.segments():
        for node, segment in node_logs.first_segments(made.merged, info).items():
            kept[node] = min(segment, kept.get(node, segment))
    before = [one for one in made.expected(400) if one[0] > state.first_ts]
    for number, name in enumerate(made.names):
        node = made.writers[name]
        # Nothing is merged of it: nothing may go.
        assert node_logs.collectable(node.state, kept[number], BEGIN) == BEGIN
        assert node.collect(node_logs.collectable(node.state, kept[number], 400))
        assert node.state.first_segment == kept[number]
    assert made.read() == before
    # The control: one segment more, and rows are missing.
    node.collect(node.state.closed[0].last_ts)
    with pytest.raises(LogCollected):
        made.read()


def test_nodes_file(made: Made) -> None:
    made.one("n1", 110, 0)
    made.commit(120)
    made.merge()
    path = made.merged / "nodes"
    path.write_bytes(path.read_bytes().replace(b"n2", b"n4"))
    with closing(ChangeLog.open(made.merged)) as log:
        runs = log.runs(Position(BEGIN), Position(120))
        with pytest.raises(LogCorrupt):
            log.verify(runs)
    node_logs.save(made.merged, [])
    with closing(ChangeLog.open(made.merged)) as log, pytest.raises(LogCorrupt):
        log.verify(log.runs(Position(BEGIN), Position(120)))


def test_segment_numbers() -> None:
    own = np.array([1, 7, node_logs.SEGMENTS_END - 1], np.int32)
    for node in (0, 1, node_logs.MOST_NODES - 1):
        there = node_logs.placed(node, own)
        assert there.dtype == np.int32
        assert (there > 0).all()
        assert [place_of(int(n)) for n in there] == [(node, int(n)) for n in own]
    assert [place_of(int(n)) for n in own] == [None, None, None]
    assert place_of(-3) is None


def test_collected_rows_are_named(made: Made) -> None:
    with closing(ChangeLog.open(made.merged)) as log, pytest.raises(LogCollected):
        log.segment(int(node_logs.placed(0, np.array([9], np.int32))[0]))
