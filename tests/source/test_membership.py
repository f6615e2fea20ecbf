"""Nodes that come and go while logs are merged: one order, whatever is merged when."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cdc.base.nodes import node_of, qualified
from cdc.base.position import Position, TransactionName
from cdc.changelog import node_logs, origin
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.tokens import DDLNotUnderstood
from cdc.source.membership import arrival
from cdc.source.merged_anew import begin_anew
from cdc.source.merged_rows import NodeLog
from cdc.source.merged_schema import united
from cdc.source.merging import Merging, merged_to, position_of
from cdc.source.statements import History
from tests import seeds
from tests.changelog.logs import StillClock, ddl, dml, open_log

BEGIN = 100
SERVER = {
    "kind": "mariadb", "version": "11.4.5-MariaDB", "lower_case_table_names": 0, "sql_mode": "",
    "character_set_server": "utf8mb4", "collation_server": "utf8mb4_general_ci",
    "explicit_defaults_for_timestamp": 1,
}  # fmt: skip
TABLE = "CREATE TABLE `t0` (\n  `id` int(11) NOT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB"


def _schema(ts: int) -> dict[str, Any]:
    options = {"charset": "utf8mb4", "collation": "utf8mb4_general_ci"}
    return {
        "ts": ts, "server": SERVER, "databases": {"d": options, "e`f": options},
        "tables": {"d.t0": TABLE}, "others": [["d", "v"]], "triggers": [],
    }  # fmt: skip


@dataclass
class Fleet:
    """Nodes' logs with a transaction or a statement at every ts, and the log over them."""

    folder: Path
    writers: dict[str, LogWriter] = field(default_factory=dict)
    resolved: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, begin: int) -> None:
        """A node whose log begins there."""
        writer = open_log(self.folder / name, segment_bytes=4096, keep_s=0)
        writer.table_id("d", "t0", name.encode())
        writer.save_snapshot(begin, _schema(begin))
        writer.begin(begin, {})
        self.writers[name], self.resolved[name] = writer, begin

    def begin(self) -> None:
        """Two nodes under one log."""
        for name in ("n1", "n2"):
            self.add(name, BEGIN)
        (self.folder / "merged").mkdir()
        self.known("n1", "n2")
        with self._writer() as writer:
            writer.save_snapshot(BEGIN, united([(n, _schema(BEGIN)) for n in self.writers], BEGIN))
            writer.begin(BEGIN, position_of(dict.fromkeys(self.writers, BEGIN)))

    def known(self, *names: str) -> None:
        """The nodes that the log has ever had."""
        node_logs.save(self.folder / "merged", [NodeFolder(n, f"../{n}") for n in names])

    def go_on(self, upto: int, *names: str) -> None:
        """Changes of these nodes."""
        for name in names:
            for ts in range(self.resolved[name] + 1, upto + 1):
                if ts % 17 == 0:
                    added = f"ALTER TABLE d.t0 ADD {name}_{ts} INT"
                    ddl(self.writers[name], ts, added, sequence=ts)
                else:
                    dml(self.writers[name], ts, [(0, 2)], tag=name.encode(), sequence=ts)
            self.writers[name].commit(upto, {})
            self.resolved[name] = upto

    def _writer(self) -> LogWriter:
        settings = ChangelogSettings(free_space_reserve_bytes=0, keep_s=0)
        return LogWriter.open(self.folder / "merged", settings, StillClock())

    def merge(
        self,
        nodes: tuple[str, ...],
        ends: dict[str, int] | None = None,
        steps: int = 1 << 30,
        batch_bytes: int = 1 << 20,
        **pinned: Any,
    ) -> bool:
        """Merge these nodes; whether nothing was left to do. Places are those of the file."""
        places = {n.name: i for i, n in enumerate(node_logs.load(self.folder / "merged"))}
        with ExitStack() as stack:
            writer = stack.enter_context(self._writer())
            logs = [
                NodeLog(n, stack.enter_context(closing(ChangeLog.open(self.folder / n))), places[n])
                for n in nodes
            ]
            merging = Merging(writer, logs, 2000, ends=ends, batch_bytes=batch_bytes, **pinned)
            for _ in range(steps):
                if not merging.step():
                    return True
        return False

    def members(self) -> dict[str, int]:
        """By node up to where it is merged."""
        with closing(ChangeLog.open(self.folder / "merged")) as log:
            return merged_to(log.state.position)

    def read(self) -> list[tuple[int, str]]:
        """(ts, what) of all of the log: a node's ts of a transaction, or a statement's text."""
        with closing(ChangeLog.open(self.folder / "merged")) as log:
            lo, hi = Position(log.state.first_ts), Position(log.state.resolved_ts)
            runs = log.runs(lo, hi)
            log.verify(runs)
            found = []
            for i in range(len(runs)):
                node = node_of(log.tables[int(runs.table[i])].schema)
                assert node.encode() in log.event(runs.slice(i, i + 1))
                found.append((int(runs.commit_ts[i]), f"{node} {int(runs.gtid_seq[i])}"))
            history = History(log, lo.ts)
            for s in history.refresh(hi.ts):
                # A ledger that stands there finds it again.
                if s.sql.startswith(("CREATE", "DROP")):
                    name = log.transaction_at(s.ts)
                    assert name is not None
                    assert (name.ts, name.is_none) == (s.ts, False)
                assert s.error is None, s.error
                found.append((s.ts, f"{s.session.node or '-'} {s.sql}"))
        return sorted(found)

    def tables(self, ts: int) -> list[tuple[str, str]]:
        """The tables that the log has at a ts, by its statements."""
        with closing(ChangeLog.open(self.folder / "merged")) as log:
            return sorted(History(log, ts).versions.at(ts))

    def end(self) -> int:
        """Up to where the log is known."""
        with closing(ChangeLog.open(self.folder / "merged")) as log:
            return log.state.resolved_ts


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    made.begin()
    yield made
    for writer in made.writers.values():
        writer.close()


def _three(fleet: Fleet) -> None:
    fleet.go_on(150, "n1", "n2")
    assert fleet.merge(("n1", "n2"))
    fleet.add("n3", 140)
    fleet.known("n1", "n2", "n3")
    fleet.go_on(200, "n1", "n2", "n3")


def test_a_node_that_joins_has_all_that_it_has_from_its_begin_on(fleet: Fleet) -> None:
    _three(fleet)
    before = fleet.read()
    assert fleet.merge(("n1", "n2", "n3"))
    found = fleet.read()
    # What was there stays as it was.
    assert found[: len(before)] == before
    assert [text.split(" (")[0].split(" CHARACTER")[0] for _, text in found[len(before) :][:4]] == [
        "n3 CREATE DATABASE IF NOT EXISTS `d`",
        "n3 CREATE DATABASE IF NOT EXISTS `e``f`",
        "n3 CREATE TABLE IF NOT EXISTS `t0`",
        "n3 CREATE OR REPLACE VIEW `v` AS SELECT 1",
    ]
    assert fleet.tables(before[-1][0]) == [(qualified(n, "d"), "t0") for n in ("n1", "n2")]
    assert fleet.tables(fleet.end()) == [(qualified(n, "d"), "t0") for n in ("n1", "n2", "n3")]
    for node, begin in (("n1", BEGIN), ("n2", BEGIN), ("n3", 140)):
        theirs = [int(w.split()[1]) for _, w in found if w.split()[0] == node and w[3:].isdigit()]
        assert theirs == [ts for ts in range(begin + 1, 201) if ts % 17], node
    assert len({ts for ts, _ in found}) == len(found)
    assert fleet.members() == dict.fromkeys(("n1", "n2", "n3"), 200)


def test_a_node_that_leaves_has_all_up_to_its_end_and_is_not_waited_for(fleet: Fleet) -> None:
    _three(fleet)
    assert fleet.merge(("n1", "n2", "n3"))
    fleet.go_on(300, "n1", "n3")
    fleet.go_on(230, "n2")
    ends = {"n2": 220}
    assert fleet.merge(("n1", "n2", "n3"), ends)
    found, members = fleet.read(), {"n1": 300, "n3": 300}
    assert fleet.members() == members
    theirs = [int(w.split()[1]) for _, w in found if w.split()[0] == "n2" and w[3:].isdigit()]
    assert theirs[-1] == 220
    left = [(ts, w) for ts, w in found if w.startswith("- ")]
    assert [w for _, w in left] == [
        "- DROP DATABASE `n2:d `", "- DROP DATABASE `n2:e``f `",
    ]  # fmt: skip
    assert fleet.tables(left[-1][0]) == [(qualified(n, "d"), "t0") for n in ("n1", "n3")]
    assert max(ts for ts, w in found if w.startswith("n2")) < left[0][0]
    # It stays so, also where it is given still, and when the others go on.
    assert fleet.merge(("n1", "n2", "n3"), ends)
    assert fleet.read() == found
    fleet.go_on(320, "n1", "n3")
    assert fleet.merge(("n1", "n3"))
    assert fleet.read()[: len(found)] == found
    assert fleet.members() == dict.fromkeys(("n1", "n3"), 320)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_is_the_same_whatever_is_merged_at_once(fleet: Fleet, seed: int) -> None:
    _three(fleet)
    fleet.go_on(300, "n1", "n2", "n3")
    chance, ends = random.Random(seed), {"n2": 250}
    assert fleet.merge(("n1", "n2"), steps=2, batch_bytes=2000) is False
    merged, copy = fleet.folder / "merged", fleet.folder / "copy"
    shutil.copytree(merged, copy)
    known: list[tuple[int, str]] = []
    for _ in range(1000):
        # Opened anew each time, as after a kill.
        size = chance.choice((1, 300, 3000))
        over = fleet.merge(("n1", "n2", "n3"), ends, chance.randint(1, 3), batch_bytes=size)
        found = fleet.read()
        assert found[: len(known)] == known
        known = found
        if over:
            break
    else:
        pytest.fail("it does not come to an end")
    shutil.rmtree(merged)
    copy.rename(merged)
    assert fleet.merge(("n1", "n2", "n3"), ends)
    assert fleet.read() == known
    # An independent account: by node in its own order, by ts where two are apart.
    of = {n: [w for _, w in known if w.startswith(f"{n} ")] for n in ("n1", "n2", "n3")}
    assert [len(of[n]) for n in ("n1", "n2", "n3")] == [200, 150, 160 + 4]
    joined = next(ts for ts, w in known if w.startswith("n3 CREATE"))
    for ts, what in known:
        number = what.split()[1]
        if number.isdigit() and ts <= joined:
            assert int(number) <= ts


def test_nothing_is_lost_by_a_kill_at_a_change_of_members(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    _three(fleet)
    before = fleet.read()
    kept = LogWriter.commit

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogWriter, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        fleet.merge(("n1", "n2", "n3"))
    monkeypatch.setattr(LogWriter, "commit", kept)
    assert fleet.read() == before
    assert set(fleet.members()) == {"n1", "n2"}
    assert fleet.merge(("n1", "n2", "n3"))
    assert set(fleet.members()) == {"n1", "n2", "n3"}


def _names(fleet: Fleet, chance: random.Random, above: int) -> list[tuple[int, TransactionName]]:
    """Positions above a ts, at some statements by which a node comes among them."""
    found = fleet.read()
    came = [ts for ts, what in found if what.startswith("n3 CREATE")]
    asked = {*chance.sample(came, chance.randint(0, len(came)))}
    asked |= {ts for ts, _ in chance.sample(found, 5) if ts > above}
    with closing(ChangeLog.open(fleet.folder / "merged")) as log:
        named = [(ts, log.transaction_at(ts)) for ts in sorted(asked)]
    return [(ts, name) for ts, name in named if name is not None]


@pytest.mark.parametrize("run", range(8))
def test_a_log_in_the_place_of_one_that_a_node_has_joined(
    fleet: Fleet, tmp_path: Path, run: int
) -> None:
    """It begins below that, and the node comes once more, where positions know it."""
    chance = random.Random(seeds.seed() + run)
    fleet.go_on(150, "n1", "n2")
    assert fleet.merge(("n1", "n2"))
    with closing(ChangeLog.open(fleet.folder / "merged")) as log:
        anchor, position = log.state.resolved_ts, log.state.position
    fleet.add("n3", 140)
    fleet.known("n1", "n2", "n3")
    upto = 150
    while upto < 300:
        upto += chance.choice((1, 10, 60))
        fleet.go_on(upto, "n1", "n2", "n3")
        assert fleet.merge(("n1", "n2", "n3"))
    named = _names(fleet, chance, anchor)
    floor, pins = origin.pinned(named, anchor)

    made = Fleet(tmp_path / "anew")
    for name, begin in (("n1", 120), ("n2", 150), ("n3", 140)):
        made.add(name, begin)
    (made.folder / "merged").mkdir()
    with made._writer() as writer:
        begins = [(n, made.folder / n, made.resolved[n]) for n in made.writers]
        schema = united([(n, _schema(anchor)) for n in ("n1", "n2")], anchor)
        begin_anew(writer, made.folder / "merged", anchor, schema, position, begins)
    places = ("n1", "n2", "n3")
    while min(made.resolved.values()) < upto:
        for name in chance.sample(places, 2):
            made.go_on(min(upto, made.resolved[name] + chance.choice((1, 7, 90))), name)
        made.merge(places, steps=chance.randint(1, 3), pins=pins, floor=floor)
    assert made.merge(places, pins=pins, floor=floor)

    before = [(ts, what) for ts, what in fleet.read() if ts > anchor]
    after = made.read()
    for node in ("n1", "n2", "n3"):
        ours = [[w for _, w in lines if w.startswith(f"{node} ")] for lines in (before, after)]
        assert ours[0] == ours[1]
    for at, name in named:
        below = [{what for ts, what in lines if ts <= at} for lines in (before, after)]
        assert below[0] == below[1], name
        assert max(ts for ts, _ in after if ts <= at) == name.ts
    for writer in made.writers.values():
        writer.close()


def test_a_node_comes_with_foreign_keys_that_its_server_prints_as_no_sql() -> None:
    printed = (
        "CREATE TABLE `t ``back` (\n  `id` int(11) NOT NULL,\n  `p``q` int(11) DEFAULT NULL,\n"
        "  `r` int(11) DEFAULT NULL,\n  PRIMARY KEY (`id`),\n"
        "  CONSTRAINT `t `back_ibfk_1` FOREIGN KEY (`p`q`) REFERENCES `t0` (`id`),\n"
        "  CONSTRAINT `x, `y` FOREIGN KEY (`r`, `p`q`) REFERENCES `t ``back` (`id`, `p`q`)\n"
        ") ENGINE=InnoDB"
    )
    with pytest.raises(DDLNotUnderstood):
        read_ddl(printed, Session())
    snapshot = _schema(1) | {"tables": {"d.t `back": printed}}
    (made,) = (s.sql for s in arrival("n3", snapshot) if "CREATE TABLE" in s.sql)
    assert read_ddl(made, Session()).tables == (("", "t `back"),)
    assert "CONSTRAINT `t ``back_ibfk_1` FOREIGN KEY (`p``q`)" in made
