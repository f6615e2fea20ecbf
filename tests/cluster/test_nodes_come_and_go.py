"""Nodes of a cluster that come and go: at a heartbeat of all, whoever knows of it when."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc.base.nodes import node_of
from cdc.base.position import Position
from cdc.changelog import node_logs
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.logical.names import MARKED
from cdc.logical.tables import LogicalTables
from cdc.merge.carriers import CARRIERS
from cdc.merge.errors import MergeBranchMissing
from cdc.merge.items import Coordinator
from cdc.source import compaction
from cdc.source.cluster_merging import ClusterMerging
from cdc.source.merged_anew import begin_anew
from cdc.source.merged_rows import NodeLog
from cdc.source.merged_schema import united
from cdc.source.merging import merged_to, position_of
from cdc.source.statements import History
from tests import seeds
from tests.changelog.logs import StillClock
from tests.cluster.coordinator import OWN_TABLES, DistributedDatabase, Session
from tests.cluster.sharded import PATTERN, drop_parts
from tests.servers import Database
from tests.source.pulling import Pulled

NAMES = ("n1", "n2", "n3")
PATTERNS = (PATTERN, MARKED + PATTERN, "")


@dataclass
class Recorded:
    """Logs of three nodes, of which the third came and then the first went; ids as committed."""

    logs: dict[str, Path]
    ids: list[int]
    last_ts: int


class Shop:
    """A table whose parts are on the nodes; each row has the next id."""

    def __init__(self, cluster: DistributedDatabase) -> None:
        self.cluster = cluster
        self.session = Session(cluster, seeds.seed())
        self.ids: list[int] = []
        self.marks = 0

    def part(self, node: int) -> str:
        return f"shop_{node:06d}.orders_{node:02d}"

    def make_part(self, node: int, columns: str = "id INT NOT NULL PRIMARY KEY") -> None:
        name = f"shop_{node:06d}"
        self.cluster.nodes[node].execute(
            f"CREATE DATABASE {name}", f"CREATE TABLE {self.part(node)} ({columns})"
        )

    def write(self, nodes: list[int], count: int = 6) -> None:
        """Transactions over some of these nodes, or one; and a heartbeat on all of them."""
        for i in range(count):
            chosen = sorted(nodes[: 1 + i % len(nodes)] if i % 2 else nodes[-1:])
            parts = []
            for node in chosen:
                self.ids.append(len(self.ids) + 1)
                parts.append(
                    (node, [f"INSERT INTO {self.part(node)} (id) VALUES ({self.ids[-1]})"])
                )
            self.session.across(parts)
        self.session.heartbeat(nodes)

    def change(self, nodes: list[int], sql: str) -> None:
        for node in nodes:
            self.cluster.nodes[node].execute(sql.replace("orders", self.part(node)))
        self.mark(nodes, sql)

    def move(self, nodes: list[int]) -> None:
        """Say that the parts are on these nodes."""
        parts = [self.part(node).split(".") for node in nodes]
        listed = [{"schema": schema, "phyTables": [name]} for schema, name in parts]
        topology = {"logicTableMeta": {"tableName": "orders", "phySchemas": listed}}
        self.mark(nodes, "ALTER TABLEGROUP tg MOVE PARTITIONS p1 TO dn", json.dumps(topology))

    def mark(self, nodes: list[int], sql: str, meta: str = "") -> None:
        self.marks += 1
        text = (
            "INSERT INTO __cdc__.__cdc_ddl_record__ VALUES"
            f" ({self.marks}, 1, 'ALTER', 'shop', 'orders', NOW(), '{sql}', '{meta}', 1, '')"
        )
        self.session.across([(node, [text]) for node in nodes])


@pytest.fixture(scope="module")
def recorded(
    database: Callable[..., Database], tmp_path_factory: pytest.TempPathFactory
) -> Recorded:
    """Return what was written while the third node came, and the first one went."""
    more = ["--innodb-lock-wait-timeout=20"]
    servers = [database("mariadb-11.4", options=[f"--server-id={n}", *more]) for n in (51, 52, 53)]
    logs = {name: tmp_path_factory.mktemp(name) for name in NAMES}
    cluster = DistributedDatabase(servers[:2], seeds.seed())
    cluster.create()
    for server in servers:
        drop_parts(server)
    shop = Shop(cluster)
    for node in (0, 1):
        shop.make_part(node)
    with ExitStack() as stack:
        pulled = [
            stack.enter_context(Pulled(db, logs[name]))
            for db, name in zip(servers[:2], NAMES[:2], strict=True)
        ]
        shop.session.heartbeat()
        shop.write([0, 1])
        shop.change([0, 1], "ALTER TABLE orders ADD a INT")
        cluster.nodes.append(servers[2])
        servers[2].execute(*OWN_TABLES)
        shop.make_part(2, "id INT NOT NULL PRIMARY KEY, a INT")
        pulled.append(stack.enter_context(Pulled(servers[2], logs["n3"])))
        shop.session = Session(cluster, seeds.seed())
        # The upstream has it, and the coordinator does not use it yet.
        shop.write([0, 1])
        shop.session.heartbeat()
        shop.move([0, 1, 2])
        shop.write([0, 1, 2])
        shop.change([0, 1, 2], "ALTER TABLE orders ADD b INT")
        shop.write([0, 1, 2])
        shop.write([1, 2])
        shop.change([1, 2], "ALTER TABLE orders ADD c INT")
        shop.write([1, 2])
        shop.session.heartbeat([1, 2])
        for one in pulled:
            one.caught_up()
    with closing(ChangeLog.open(logs["n1"])) as log:
        return Recorded(logs, shop.ids, log.state.resolved_ts)


class MergedLog:
    """``logical``: the pattern of parts, if any; ``after``: the place of another to go on from."""

    def __init__(
        self,
        recorded: Recorded,
        folder: Path,
        *,
        logical: str,
        after: tuple[int, dict[str, Any], dict[str, Any]] | None = None,
    ) -> None:
        self.folder, self.recorded, self.logical = folder, recorded, logical
        folder.mkdir()
        if after is not None:
            self.names = NAMES
            with self._writer() as writer:
                begin_anew(writer, folder, *after, self._nodes())
            return
        begins, found = {}, []
        for name in NAMES[:2]:
            with closing(ChangeLog.open(recorded.logs[name])) as log:
                begins[name] = log.state.first_ts
                found.append((name, log.snapshot_at(log.state.first_ts)))
        self.known(*NAMES[:2])
        ts = min(begins.values())
        unite = self._tables().united if logical else united
        with self._writer() as writer:
            writer.save_snapshot(ts, unite(found, ts))
            writer.begin(ts, position_of(begins))

    def _nodes(self) -> list[tuple[str, Path, int]]:
        """Each node, its log and where that begins."""
        found = []
        for name, path in self.recorded.logs.items():
            with closing(ChangeLog.open(path)) as log:
                found.append((name, path, log.state.first_ts))
        return found

    def known(self, *names: str) -> None:
        listed = [(n, os.path.relpath(self.recorded.logs[n], self.folder)) for n in names]
        node_logs.save(self.folder, [NodeFolder(*one) for one in listed])
        self.names = names

    def _writer(self) -> LogWriter:
        settings = ChangelogSettings(free_space_reserve_bytes=0, keep_s=0)
        return LogWriter.open(self.folder, settings, StillClock())

    def _tables(self) -> LogicalTables:
        return LogicalTables(self.folder, [self.logical], "mariadb")

    def merge(
        self, ends: Mapping[str, int] | None = None, steps: int = 200, batch_rows: int = 200_000
    ) -> bool:
        """So many steps of a writer that is opened anew; whether there is more."""
        with ExitStack() as stack:
            writer = stack.enter_context(self._writer())
            nodes = [
                NodeLog(n, stack.enter_context(closing(ChangeLog.open(self.recorded.logs[n]))), i)
                for i, n in enumerate(self.names)
            ]
            merging = ClusterMerging(
                writer, nodes, 50_000, Coordinator(carrier=CARRIERS["commit-log"]),
                batch_rows=batch_rows, logical=self._tables() if self.logical else None, ends=ends,
            )  # fmt: skip
            more = True
            while steps and more:
                more, steps = merging.step(), steps - 1
        return more

    def content(self) -> list[tuple[int, str, bytes]]:
        """Ts, table and event of each row of the shop; and statements."""
        with closing(ChangeLog.open(self.folder)) as log:
            lo, hi = log.state.first_ts, log.state.resolved_ts
            runs = log.runs(Position(lo), Position(hi))
            found = [(ts, "", event[19:-4]) for ts, event in log.statements(lo, hi)]
            for i in range(len(runs)):
                entry = log.tables[int(runs.table[i])]
                if entry.name.startswith("orders"):
                    name = f"{entry.schema}.{entry.name}"
                    found.append((int(runs.commit_ts[i]), name, log.event(runs.slice(i, i + 1))))
        return sorted(found)

    def ids(self) -> list[int]:
        """The ids of rows, in order: each is the first column of an INSERT."""
        found = [
            (ts, int.from_bytes(_row(event)[1:5], "little"))
            for ts, name, event in self.content()
            if name
        ]
        return [id for _, id in sorted(found)]

    def members(self) -> list[str]:
        with closing(ChangeLog.open(self.folder)) as log:
            return list(merged_to(log.state.position))

    def schemas(self) -> set[str]:
        """The databases at the end."""
        with closing(ChangeLog.open(self.folder)) as log:
            history = History(log, log.state.first_ts)
            history.refresh(log.state.resolved_ts)
            return set(history.versions.at(log.state.resolved_ts).databases)


def _row(event: bytes) -> bytes:
    # Behind header, table number, flags, number of columns and their bitmap of one byte.
    return event[19 + 8 + 2 :]


@pytest.mark.parametrize("logical", PATTERNS, ids=["logical", "marked", "plain"])
def test_a_node_comes_and_another_goes(recorded: Recorded, tmp_path: Path, logical: str) -> None:
    made = MergedLog(recorded, tmp_path / "log", logical=logical)
    # The coordinator has a node more, of which nobody has said a word.
    with pytest.raises(MergeBranchMissing, match="3"):
        made.merge()
    made.known(*NAMES)
    made.merge()
    assert made.members() == list(NAMES)
    known = made.ids()
    assert known == recorded.ids[: len(known)]
    # One that the coordinator does not use any more holds back the rest until it is removed.
    assert len(known) < len(recorded.ids)
    made.merge({"n1": recorded.last_ts})
    assert made.members() == ["n2", "n3"]
    assert made.ids() == recorded.ids
    if logical:
        assert made.schemas() == {"shop"}
        told = [event for _, name, event in made.content() if not name]
        assert [b" ADD a " in told[0], b" ADD b " in told[1], b" ADD c " in told[2]] == [True] * 3
        assert len(told) == 3
    else:
        assert {node_of(schema) for schema in made.schemas()} == {"n2", "n3"}


def test_whoever_knows_when_the_order_is_the_same(recorded: Recorded, tmp_path: Path) -> None:
    whole = MergedLog(recorded, tmp_path / "whole", logical=MARKED + PATTERN)
    whole.known(*NAMES)
    whole.merge({"n1": recorded.last_ts})
    assert whole.ids() == recorded.ids
    made, kills = MergedLog(recorded, tmp_path / "killed", logical=MARKED + PATTERN), 0
    made.known(*NAMES)
    ends: dict[str, int] = {}
    while made.merge(ends, 2, batch_rows=9 + kills % 5) or not ends:
        # Each time all that was read and not committed is forgotten.
        kills += 1
        if kills > 25:
            ends = {"n1": recorded.last_ts}
        assert kills < 1000
    assert made.content() == whole.content()
    assert made.members() == ["n2", "n3"]


@pytest.mark.parametrize("logical", PATTERNS, ids=["logical", "marked", "plain"])
def test_a_log_in_the_place_of_another_has_the_node_come_once_more(
    recorded: Recorded, tmp_path: Path, logical: str
) -> None:
    """From any place below its coming."""
    whole = MergedLog(recorded, tmp_path / "whole", logical=logical)
    whole.known(*NAMES)
    whole.merge({"n1": recorded.last_ts})
    wanted, lost, tried = whole.content(), MergedLog(recorded, tmp_path / "l", logical=logical), 0
    lost.known(*NAMES)
    while "n3" not in lost.members():
        lost.merge(steps=2, batch_rows=9 + tried)
        with closing(ChangeLog.open(lost.folder)) as log:
            ts, position = log.state.resolved_ts, log.state.position
            snapshot = compaction.at(log, ts)
        if "stand" not in position or "n3" in position["nodes"]:
            continue
        tried += 1
        assert snapshot is not None
        after = ts, snapshot, position
        again = MergedLog(recorded, tmp_path / f"anew-{tried}", logical=logical, after=after)
        again.merge({"n1": recorded.last_ts})
        assert again.members() == ["n2", "n3"]
        assert again.content() == [one for one in wanted if one[0] > ts]
    assert tried > 1
