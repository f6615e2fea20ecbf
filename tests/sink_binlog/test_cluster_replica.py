"""A distributed database of stock servers is followed by one stock replica, through files."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from cdc.changelog import node_logs
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.merge.carriers import CARRIERS
from cdc.merge.items import Coordinator
from cdc.source.cluster_merging import ClusterMerging
from cdc.source.merged_rows import NodeLog
from cdc.source.merging import position_of
from tests import seeds, servers
from tests.changelog.logs import StillClock
from tests.cluster.coordinator import DistributedDatabase, accounts
from tests.servers import Database
from tests.sink_binlog.following import Served, at_the_end, follow
from tests.sink_binlog.replay import deliver, files_of, printed
from tests.source.pulling import Pulled
from tests.waiting import until

pytestmark = pytest.mark.real

_NODES = ("n1", "n2")
_SEGMENT = 1 << 20


def _merge(folder: Path, logs: dict[str, Path]) -> int:
    """Write the merged log of the nodes' logs; from where on it has all."""
    places = [NodeFolder(name, os.path.relpath(path, folder)) for name, path in logs.items()]
    folder.mkdir()
    node_logs.save(folder, places)
    with ExitStack() as stack:
        nodes = [
            NodeLog(name, stack.enter_context(closing(ChangeLog.open(path))))
            for name, path in logs.items()
        ]
        begins = {node.name: node.log.state.first_ts for node in nodes}
        settings = ChangelogSettings(free_space_reserve_bytes=0, keep_s=0)
        writer = stack.enter_context(LogWriter.open(folder, settings, StillClock()))
        writer.begin(min(begins.values()), position_of(begins))
        coordinator = Coordinator(carrier=CARRIERS["commit-log"])
        merging = ClusterMerging(writer, nodes, _SEGMENT, coordinator)
        while merging.step():
            pass
        return writer.state.first_ts


@pytest.mark.parametrize("kind", ["mariadb-11.4", "mysql-8.0"])
def test_one_stock_replica_of_all_nodes(
    kind: str, database: Callable[..., Database], tmp_path: Path
) -> None:
    more = ["--innodb-lock-wait-timeout=20"]
    nodes = [database(kind, options=[f"--server-id={n}", *more]) for n in (51, 52)]
    cluster = DistributedDatabase(nodes, seeds.seed())
    cluster.create()
    logs = {name: tmp_path / name for name in _NODES}
    with ExitStack() as stack:
        pulled = [
            stack.enter_context(Pulled(db, folder))
            for db, folder in zip(nodes, logs.values(), strict=True)
        ]
        cluster.start(workers=3)
        until(lambda: len(cluster.journal.distributed) > 150, "transactions")
        cluster.finish()
        for one in pulled:
            one.caught_up()
    start_ts = _merge(tmp_path / "merged", logs)
    deliver(tmp_path / "merged", f"binlog://{tmp_path / 'out'}", ["bank.*"], start_ts)
    files = files_of(tmp_path / "out")
    printed(nodes[0], files)
    served = Served(files, tmp_path / "served", None)
    options = ["--server-id=77", "--skip-log-bin" if nodes[0].kind == "mariadb" else "--log-bin=x"]
    try:
        with servers.database(kind, options=options, gtid=False) as replica:
            replica.execute("CREATE DATABASE bank", *accounts(0), *accounts(1))
            served.give(len(files))
            follow(replica, served.server.port, served.server.files()[0].name)
            at_the_end(replica, served)
            for n, node in enumerate(nodes):
                read = f"SELECT id, balance FROM bank.accounts_{n}"
                assert sorted(replica.execute(read)) == sorted(node.execute(read))
    finally:
        served.server.close()
