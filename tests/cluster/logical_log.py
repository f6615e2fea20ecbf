"""Logs of a table's parts on two nodes, and the merged log over them, for tests of both."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc.base.position import Position
from cdc.changelog import node_logs
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.logical.tables import LogicalTables
from cdc.merge.carriers import CARRIERS
from cdc.merge.items import Coordinator
from cdc.source import compaction
from cdc.source.cluster_merging import ClusterMerging
from cdc.source.merged_anew import begin_anew
from cdc.source.merged_rows import NodeLog
from cdc.source.merging import position_of
from tests import seeds
from tests.changelog.logs import StillClock
from tests.cluster.coordinator import DistributedDatabase
from tests.cluster.sharded import PATTERN, ShardedDatabase
from tests.servers import Database
from tests.source.pulling import Pulled

NAMES = ("n1", "n2")
CREATE = "CREATE TABLE {part} (id INT NOT NULL PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 7)"


@dataclass
class Recorded:
    sharded: ShardedDatabase
    kind: str
    logs: dict[str, Path]
    pattern: str = PATTERN


class MergedLog:
    """A merged log of logical tables over what was recorded."""

    def __init__(
        self,
        recorded: Recorded,
        folder: Path,
        after: tuple[int, dict[str, Any], dict[str, Any]] | None = None,
    ) -> None:
        """``after``: ts, schema and position of the log whose place it takes."""
        self.folder, self.recorded = folder, recorded
        folder.mkdir()
        logs = recorded.logs
        node_logs.save(folder, [NodeFolder(n, os.path.relpath(p, folder)) for n, p in logs.items()])
        begins, found = {}, []
        for name, path in logs.items():
            with closing(ChangeLog.open(path)) as log:
                begins[name] = log.state.first_ts
                found.append((name, log.snapshot_at(log.state.first_ts)))
        ts = min(begins.values())
        with self._writer() as writer:
            if after is not None:
                nodes = [(name, path, begins[name]) for name, path in logs.items()]
                begin_anew(writer, folder, *after, nodes)
                return
            writer.save_snapshot(ts, self._logical().united(found, ts))
            writer.begin(ts, position_of(begins))

    def _writer(self) -> LogWriter:
        settings = ChangelogSettings(free_space_reserve_bytes=0, keep_s=0)
        return LogWriter.open(self.folder, settings, StillClock())

    def _logical(self) -> LogicalTables:
        return LogicalTables(
            self.folder, [self.recorded.pattern], self.recorded.kind.partition("-")[0]
        )

    def merge(self, steps: int = 1 << 30, batch_rows: int = 200_000) -> bool:
        """So many steps of a writer that is opened anew; whether there is more."""
        with ExitStack() as stack:
            writer = stack.enter_context(self._writer())
            nodes = [
                NodeLog(name, stack.enter_context(closing(ChangeLog.open(path))))
                for name, path in self.recorded.logs.items()
            ]
            coordinator = Coordinator(carrier=CARRIERS["commit-log"])
            merging = ClusterMerging(
                writer, nodes, 50_000, coordinator, batch_rows=batch_rows, logical=self._logical()
            )
            more = True
            while steps and more:
                more, steps = merging.step(), steps - 1
        return more

    def content(self) -> list[tuple[int, str, str, bytes]]:
        """Ts, table, TABLE_MAP and events of each row, and statements, in order."""
        with closing(ChangeLog.open(self.folder)) as log:
            lo, hi = log.state.first_ts, log.state.resolved_ts
            runs = log.runs(Position(lo), Position(hi))
            log.verify(runs)
            found = [(ts, "", "", event[19:-4]) for ts, event in log.statements(lo, hi)]
            for i in range(len(runs)):
                entry = log.tables[int(runs.table[i])]
                event = log.event(runs.slice(i, i + 1))
                name = f"{entry.schema}.{entry.name}"
                found.append((int(runs.commit_ts[i]), name, entry.map_body.hex(), event))
        return sorted(found, key=lambda one: one[0])


def record(
    kind: str,
    database: Callable[..., Database],
    folders: pytest.TempPathFactory,
    changes: Callable[[ShardedDatabase], None],
    pattern: str = PATTERN,
) -> Recorded:
    """What two nodes have of the table ``orders`` behind ``changes``."""
    more = ["--innodb-lock-wait-timeout=20"]
    nodes = [database(kind, options=[f"--server-id={n}", *more]) for n in (51, 52)]
    cluster = DistributedDatabase(nodes, seeds.seed())
    cluster.create()
    sharded = ShardedDatabase(cluster, seeds.seed())
    sharded.over_parts("orders", CREATE)
    logs = {name: folders.mktemp(name) for name in NAMES}
    with ExitStack() as stack:
        pulled = [
            stack.enter_context(Pulled(db, folder))
            for db, folder in zip(nodes, logs.values(), strict=True)
        ]
        cluster.beat()
        changes(sharded)
        cluster.finish()
        for one in pulled:
            one.caught_up()
    return Recorded(sharded, kind, logs, pattern)


def killed_at_steps(recorded: Recorded, whole: MergedLog, folder: Path) -> MergedLog:
    """A log whose writer is killed every few steps, which has what ``whole`` has after each."""
    made, wanted, kills = MergedLog(recorded, folder), whole.content(), 0
    while made.merge(3, batch_rows=60 + 7 * kills):
        found = made.content()
        assert found == wanted[: len(found)]
        kills += 1
    assert made.content() == wanted
    assert kills > 3
    return made


def replaced_at_steps(recorded: Recorded, whole: MergedLog, folder: Path) -> None:
    """Every few steps another log takes the place of one, and has what ``whole`` has from there."""
    made, wanted, tried = MergedLog(recorded, folder / "lost"), whole.content(), 0
    more = True
    while more:
        more = made.merge(5, batch_rows=60 + 7 * tried)
        with closing(ChangeLog.open(made.folder)) as log:
            ts, position = log.state.resolved_ts, log.state.position
            snapshot = compaction.at(log, ts)
        if "stand" not in position:
            continue
        tried += 1
        assert snapshot is not None
        again = MergedLog(recorded, folder / f"anew-{tried}", (ts, snapshot, position))
        again.merge()
        assert again.content() == [one for one in wanted if one[0] > ts]
    assert tried > 2
