"""A log of shards in the place of one that is lost: below each position lies what lay below it.

Two generations of the nodes' logs have the same transactions under different ts, so they are merged
in different orders; ``lines`` is what the merged log has, each as (node, number) in order.

Nodes have no GTIDs, or those of MySQL, whose numbers may come out of order: where a replica applies
in parallel, or members of a group have blocks of numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cdc.base.nodes import node_of
from cdc.base.position import LastOfNode, Position, Stand, TransactionName
from cdc.base.ts import Ts
from cdc.binlog.query import Query
from cdc.changelog import node_logs, origin
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.origin import Origin, Pin
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.source import merged_anew
from cdc.source.errors import TransactionMissing, TransactionMoved
from cdc.source.merged_rows import NodeLog
from cdc.source.merging import Merging
from cdc.source.position import UpstreamPosition
from cdc.source.shards_position import ShardsPosition
from processor.transaction_names import strangers
from tests import seeds
from tests.changelog.logs import StillClock, ddl, dml, open_log

NAMES = ("n1", "n2", "n3")
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
BEGIN = 1 << 40
SECOND = 1000 << 18

Line = tuple[str, int]


@dataclass
class Generation:
    """Logs of the nodes, and one over them, of one capture; ``ts`` by node and number.

    With ``gtids`` the nodes have them; ``executed`` is then the numbers of each.
    """

    folder: Path
    gtids: bool = False
    executed: dict[str, frozenset[int]] = field(
        default_factory=lambda: dict.fromkeys(NAMES, frozenset())
    )
    settings: dict[str, Any] = field(default_factory=dict)
    ts: dict[Line, Ts] = field(default_factory=dict)
    writers: dict[str, LogWriter] = field(default_factory=dict)

    def begin(self, begins: dict[str, Ts]) -> None:
        self.folder.mkdir()
        for name, ts in begins.items():
            writer = open_log(self.folder / name, segment_bytes=4096, keep_s=0)
            writer.table_id("d", "t", name.encode())
            writer.begin(ts, {})
            self.writers[name] = writer
        (self.folder / "merged").mkdir()

    def begin_merged(self, ts: Ts, begins: dict[str, Ts]) -> None:
        places = [NodeFolder(n, f"../{n}") for n in begins]
        node_logs.save(self.folder / "merged", places)
        with self.writer() as writer:
            writer.begin(ts, ShardsPosition(begins).to_dict())

    def writer(self) -> LogWriter:
        settings = ChangelogSettings(
            free_space_reserve_bytes=0, keep_s=0, segment_bytes=4096, **self.settings
        )
        return LogWriter.open(self.folder / "merged", settings, StillClock())

    def write(self, line: Line, ts: Ts) -> None:
        name, number = line
        writer = self.writers[name]
        self.ts[line] = ts
        self.executed[name] |= {number}
        named = {"sequence": number}
        if self.gtids:
            named["source"] = writer.source_id(UUID)
        if number % 13 == 0:
            ddl(writer, ts, f"ALTER TABLE d.t ADD c{number} INT", **named)
        else:
            dml(writer, ts, [(0, 2)], tag=name.encode(), **named)

    def commit(self, name: str, ts: Ts) -> None:
        """Up to ``ts`` the node has no more than what was written."""
        numbers = sorted(self.executed[name])
        where = UpstreamPosition("bin", max(numbers, default=0) + 1)
        if self.gtids:
            where = replace(where, gtid=":".join([UUID, *map(str, numbers)]) if numbers else "")
        self.writers[name].commit(ts, where.to_dict())

    def merge(
        self, steps: int = 1 << 30, pins: Iterable[Pin] = (), floor: Ts = 0, batch: int = 1 << 20
    ) -> bool:
        """Whether there is nothing left to do."""
        with ExitStack() as stack:
            writer = stack.enter_context(self.writer())
            logs = [
                NodeLog(n, stack.enter_context(closing(ChangeLog.open(self.folder / n))))
                for n in self.writers
            ]
            merging = Merging(writer, logs, 200, pins=tuple(pins), floor=floor, batch_bytes=batch)
            return any(not merging.step() for _ in range(steps))

    def log(self) -> ChangeLog:
        return ChangeLog.open(self.folder / "merged")

    def lines(self) -> list[tuple[Ts, Line]]:
        found: dict[Ts, Line] = {}
        with closing(self.log()) as log:
            lo, hi = Position(log.state.first_ts), Position(log.state.resolved_ts)
            runs = log.runs(lo, hi)
            log.verify(runs)
            for i in range(len(runs)):
                node = node_of(log.tables[int(runs.table[i])].schema)
                found[int(runs.commit_ts[i])] = node, int(runs.gtid_seq[i])
            for ts, event in log.statements(lo.ts, hi.ts):
                query = Query.parse(event[19:-4])
                assert ts not in found
                found[ts] = node_of(query.schema), int(query.sql.split(" c")[1].split()[0])
        return sorted(found.items())

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


def _fill(made: Generation, chance: random.Random, lasts: dict[str, int], upto: Ts) -> None:
    """Some transactions of each node up to a ts; some nodes rest, some are busy."""
    for name, writer in made.writers.items():
        at = writer.state.resolved_ts
        for _ in range(chance.choice((0, 0, 1, 5, 30))):
            at += chance.choice((1, 1, 1, 7, SECOND // 50))
            if at > upto:
                break
            lasts[name] += 1
            number = lasts[name]
            # By GTID the eight of a block come from the last to the first.
            made.write((name, (number - 1 ^ 7) + 1 if made.gtids else number), at)
        made.commit(name, upto)


@dataclass
class Lost:
    """A log that is lost, and what the store and the ledgers know of it."""

    made: Generation
    lines: list[tuple[Ts, Line]]
    named: list[tuple[Ts, TransactionName]]
    anchor: Ts
    position: dict[str, Any]


def lost(folder: Path, chance: random.Random, *, gtids: bool = False) -> Lost:
    """A log that was merged bit by bit, with an anchor somewhere and positions above it."""
    made = Generation(folder, gtids)
    made.begin(dict.fromkeys(NAMES, BEGIN))
    made.begin_merged(BEGIN, dict.fromkeys(NAMES, BEGIN))
    lasts = dict.fromkeys(NAMES, 0)
    # Where it begins there is an anchor too.
    anchors = [(BEGIN, ShardsPosition(dict.fromkeys(NAMES, BEGIN)).to_dict())]
    for _ in range(12):
        upto = made.writers["n1"].state.resolved_ts + chance.choice((100, SECOND // 3, 3 * SECOND))
        _fill(made, chance, lasts, upto)
        while not made.merge(chance.randint(1, 3), batch=chance.choice((300, 3000, 1 << 20))):
            with closing(made.log()) as log:
                anchors.append((log.state.resolved_ts, log.state.position))
    made.merge()
    anchor, position = chance.choice(anchors[: 2 * len(anchors) // 3 + 1])
    lines = made.lines()
    above = [ts for ts, _ in lines if ts > anchor]
    with closing(made.log()) as log:
        asked = sorted(chance.sample(above, min(6, len(above))))
        # A position may lie behind a transaction, where others of the node wait for their time.
        named = [(ts + chance.choice((0, 0, 1)), ts) for ts in asked]
        found = [(at, log.transaction_at(at)) for at, _ in named]
    return Lost(made, lines, [(ts, n) for ts, n in found if n is not None], anchor, position)


def anew(
    folder: Path, gone: Lost, chance: random.Random, pins: tuple[Pin, ...], floor: Ts
) -> Generation:
    """Another log in its place, merged bit by bit while the nodes' new logs grow."""
    old = gone.made
    made = Generation(folder, old.gtids)
    merged: dict[str, Ts] = gone.position["nodes"]
    # Each node's log begins at an anchor of its own, at or below what was merged of it.
    begins = {
        name: chance.choice(
            [upto, *(ts for (n, _), ts in old.ts.items() if n == name and ts <= upto)]
        )
        for name, upto in merged.items()
    }
    made.begin(begins)
    node_begins = [(name, folder / name, ts) for name, ts in begins.items()]
    with made.writer() as writer:
        origin.save(folder / "merged", Origin.new(floor, pins))
        merged_anew.begin_anew(
            writer, folder / "merged", gone.anchor, {"tables": {}}, gone.position, node_begins
        )
    todo = {
        name: [line for line, ts in old.ts.items() if line[0] == name and ts > begins[name]]
        for name in NAMES
    }
    for name, number in old.ts:
        if old.ts[name, number] <= begins[name]:
            made.executed[name] |= {number}
    last = dict(begins)
    while any(todo.values()):
        for name, left in todo.items():
            for line in left[: chance.choice((0, 1, 4, 40))]:
                left.remove(line)
                # Where its log was idle a transaction has another ts than it had.
                wanted = old.ts[line] + chance.choice((0, 0, 0, SECOND // 7, 2 * SECOND))
                last[name] = max(last[name] + 1, wanted)
                made.write(line, last[name])
            made.commit(name, last[name])
        made.merge(chance.randint(1, 4), pins, floor, chance.choice((300, 3000, 1 << 20)))
    end = max(last.values()) + 1
    for name in made.writers:
        made.commit(name, end)
    assert made.merge(pins=pins, floor=floor, batch=chance.choice((300, 1 << 20)))
    return made


def check(gone: Lost, made: Generation) -> None:
    """What lies below each position is what lay there, and each node keeps its order."""
    lines = made.lines()
    kept = [line for ts, line in gone.lines if ts > gone.anchor]
    found = [line for _, line in lines]
    for name in NAMES:
        assert [n for n in found if n[0] == name] == [n for n in kept if n[0] == name]
    for at, name in gone.named:
        was = {line for ts, line in gone.lines if gone.anchor < ts <= at}
        assert {line for ts, line in lines if ts <= at} == was, name
        assert max((ts for ts, _ in lines if ts <= at), default=gone.anchor) == name.ts
    with closing(made.log()) as log:
        stands = [Stand(ts, transactions={ts: name}) for ts, name in gone.named]
        assert strangers(stands, log, origin.load(made.folder / "merged")) == []


def made_anew(
    folder: Path, seed: int, ignored: str = "", *, gtids: bool = False
) -> tuple[Lost, Generation]:
    """A log that is lost, and the one in its place; no cut speaks of the node ``ignored``."""
    chance = random.Random(seed)
    gone = lost(folder / "lost", chance, gtids=gtids)
    floor, pins = origin.pinned(gone.named, gone.anchor)
    given = tuple(Pin(_without(pin.name, ignored), pin.floor) for pin in pins)
    made = anew(folder / "made", gone, chance, given, floor)
    for one in (gone.made, made):
        one.close()
    return gone, made


def _without(name: TransactionName, node: str) -> TransactionName:
    left = (last for last in name.cut if last.node != node or last.source == name.source)
    return name._replace(cut=tuple(left))


@pytest.mark.parametrize("gtids", [False, True], ids=["files", "gtids"])
@pytest.mark.parametrize("run", range(12))
def test_below_each_position_lies_what_lay_there(tmp_path: Path, run: int, gtids: bool) -> None:
    check(*made_anew(tmp_path, seeds.seed() + run, gtids=gtids))


def test_a_cut_that_ignores_a_node_has_others_below(tmp_path: Path) -> None:
    def as_it_was(seed: int) -> bool:
        try:
            check(*made_anew(tmp_path / str(seed), seed, ignored="n2"))
        except AssertionError:
            return False
        return True

    for seed in range(4):
        (tmp_path / str(seed)).mkdir()
    # Of one that rests around the positions nothing is missed.
    assert not all(as_it_was(seed) for seed in range(4))


def test_names_keep_their_cut_where_retention_has_emptied_the_log(tmp_path: Path) -> None:
    gone = lost(tmp_path / "lost", random.Random(3))
    top = max(ts for ts, _ in gone.lines)
    with closing(gone.made.log()) as log:
        before = {ts: log.transaction_at(ts) for ts, _ in gone.lines}
    with gone.made.writer() as writer:
        assert writer.collect(top)
        first = writer.state.first_ts
    with closing(gone.made.log()) as log:
        asked = [ts for ts in before if ts >= first]
        assert asked
        for ts in (*asked, *reversed(asked)):
            assert log.transaction_at(ts) == before[ts]
        assert log.transaction_at(first - 1) is None
    for name in before.values():
        assert name is not None
        assert (name.source, name.sequence) in {last[:2] for last in name.cut}
        assert TransactionName.of(name.to_list()) == name
    gone.made.close()


def test_a_log_whose_order_differs_below_a_position_is_told(tmp_path: Path) -> None:
    gone = lost(tmp_path / "lost", random.Random(5))
    gone.made.close()
    ts, name = gone.named[-1]
    other = name._replace(cut=tuple(last._replace(sequence=1) for last in name.cut))
    with closing(gone.made.log()) as log:
        assert strangers([Stand(ts, transactions={ts: name})], log, None) == []
        assert strangers([Stand(ts, transactions={ts: other})], log, None) == [(ts, other)]


@pytest.mark.parametrize("gtids", [False, True], ids=["files", "gtids"])
def test_a_transaction_that_a_node_has_lost_is_told(tmp_path: Path, gtids: bool) -> None:
    gone = lost(tmp_path / "lost", random.Random(7), gtids=gtids)
    pins = tuple(
        Pin(name._replace(cut=tuple(_gone(last) for last in name.cut)), ts)
        for ts, name in gone.named[:1]
    )
    with pytest.raises(TransactionMoved):
        anew(tmp_path / "made", gone, random.Random(7), pins, 0)
    gone.made.close()


def test_a_transaction_that_a_node_may_still_get_is_waited_for_and_told(tmp_path: Path) -> None:
    """A replica that lags, or has lost what another had: its GTIDs say that it has not had it."""
    ts, source = BEGIN + 100, f"n1:{UUID}"
    pins = (Pin(TransactionName(ts, source, 100_000, -1, (LastOfNode(source, 100_000),)), ts),)
    made = Generation(tmp_path / "made", True)
    made.begin(dict.fromkeys(NAMES, BEGIN))
    made.begin_merged(BEGIN, dict.fromkeys(NAMES, BEGIN))
    with ExitStack() as stack:
        logs = [
            NodeLog(n, stack.enter_context(closing(ChangeLog.open(made.folder / n)))) for n in NAMES
        ]
        merging = Merging(stack.enter_context(made.writer()), logs, 200, pins=pins)

        def told(upto: Ts) -> TransactionMissing | None:
            for node in NAMES:
                made.commit(node, upto)
            while merging.step():
                pass
            return merging.missing()

        made.write(("n1", 99_999), BEGIN + 5)
        assert told(ts - 1) is None
        made.write(("n1", 100_001), ts + 4)
        error = told(ts + 5)
        assert error is not None
        assert "n1" in error.object
        assert "100000" in str(error)
        made.write(("n1", 100_000), ts + 6)
        assert told(ts + 6) is None
    assert (ts, ("n1", 100_000)) in made.lines()
    made.close()


def _gone(last: LastOfNode) -> LastOfNode:
    # No row is a statement's, so it lies nowhere.
    return last._replace(statement=not last.statement)
