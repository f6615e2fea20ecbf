"""Some hundred transactions of a distributed database of stock servers, recorded once for all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cdc.base.clock import SystemClock
from cdc.changelog.index import PREPARED_BEFORE
from cdc.changelog.origin import Origin
from cdc.changelog.reader import ChangeLog
from cdc.coord.anchors import Anchors
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Anchor
from cdc.merge.carriers import CARRIERS
from cdc.merge.cluster import ClusterMerge, ClusterStand
from cdc.merge.items import Coordinator
from cdc.source.anchor_place import WhenPrepared
from cdc.source.anchoring import Anchoring
from cdc.source.errors import XaNotKnown
from tests import seeds
from tests.cluster.coordinator import DistributedDatabase
from tests.cluster.reading import items_of
from tests.merge.bank import Part, parts_of
from tests.servers import Database
from tests.source.pulling import Pulled
from tests.waiting import until

# However fast the machine is: what follows needs holes, ties and rollbacks among them.
TRANSACTIONS = 500
_LOAD_S = 2.0
KINDS = ("mariadb-11.4", "mariadb-11.4", "mysql-8.0")
NAMES = [f"n{i + 1}" for i in range(len(KINDS))]


@dataclass
class Recorded:
    """``anchors`` lie amid prepared transactions; logs that begin there are in ``anew``."""

    cluster: DistributedDatabase
    folders: list[Path]
    items: dict[str, list[np.ndarray]]
    anchors: list[Anchor]
    anew: list[Path]

    @property
    def first(self) -> list[np.ndarray]:
        return self.items["timestamp"]


def coordinator_with(carrier: str) -> Coordinator:
    return Coordinator(carrier=CARRIERS[carrier])


def merged(items: list[np.ndarray]) -> list[list[Part]]:
    """The order of all that is final at the end of the items."""
    merge = ClusterMerge.begin(NAMES, ClusterStand.first(len(NAMES)))
    merge, found = merge.step(items)
    assert merge.aligned
    return parts_of([found])


class AnchoredNode:
    """Where another log of a node could begin, as the store has it."""

    def __init__(self, pulled: Pulled, folder: Path) -> None:
        self.pulled = pulled
        with closing(EmbeddedStore(folder / "meta.db", SystemClock())) as store:
            anchors = Anchors(store, Keys(), "n")
            held = Anchoring(pulled.folder, anchors, (), "a", WhenPrepared.NOT_NEEDED)

            def amid_prepared() -> bool:
                held.run(pulled.writer.state, 0)
                return any(len(anchor.prepared) > 1 for anchor in anchors.all()[-1:])

            until(amid_prepared, "an anchor where something is prepared")
            self.anchor = anchors.all()[-1]
            self.schema = anchors.schema(self.anchor)

    def pull(self, folder: Path, begun: Origin | None = None) -> Pulled:
        """Another log, which begins at the anchor."""
        return self.pulled.at_anchor(folder, self.anchor, self.schema, begun)


def commits_of_before(folder: Path) -> int:
    """How many commits a log has of what was prepared before it begins."""
    with closing(ChangeLog.open(folder)) as log:
        indexes = [log.index_of(info.number) for info in log.refresh().segments()]
    return sum(int(((runs.flags & PREPARED_BEFORE) != 0).sum()) for runs in indexes)


@pytest.fixture(scope="session")
def recorded(
    database: Callable[..., Database], tmp_path_factory: pytest.TempPathFactory
) -> Recorded:
    """Load on three nodes, and the logs that were pulled of it."""
    servers = [
        database(kind, options=[f"--server-id={i + 11}", "--innodb-lock-wait-timeout=20"])
        for i, kind in enumerate(KINDS)
    ]
    cluster = DistributedDatabase(servers, seeds.seed())
    cluster.create()
    folders = [tmp_path_factory.mktemp(name) for name in NAMES]
    with ExitStack() as stack:
        pulled = [
            stack.enter_context(Pulled(db, folder))
            for db, folder in zip(servers, folders, strict=True)
        ]
        servers[1].execute("ALTER TABLE bank.accounts_1 COMMENT 'before the order begins'")
        cluster.start(workers=8)
        began_s = time.monotonic()
        committed = cluster.journal.distributed
        until(lambda: len(committed) > TRANSACTIONS / 2, "half of the load")
        anchored = [AnchoredNode(p, tmp_path_factory.mktemp("store")) for p in pulled]
        servers[0].execute("CREATE TABLE bank.other (id INT PRIMARY KEY)")
        # However fast the machine is: who is behind by the load is behind by more than a second.
        until(lambda: len(committed) > TRANSACTIONS and time.monotonic() > began_s + _LOAD_S, "all")
        cluster.finish()
        for one in pulled:
            one.caught_up()
    anew = [tmp_path_factory.mktemp(f"{name}-anew") for name in NAMES]
    controls = 0
    for node, folder in zip(anchored, anew, strict=True):
        with node.pull(folder) as again:
            again.caught_up()
        # Control: a log that was told of nothing does not take what it has no rows of.
        if commits_of_before(folder):
            controls += 1
            with node.pull(tmp_path_factory.mktemp("untold"), Origin.new()) as untold:
                assert isinstance(untold.failed(), XaNotKnown)
    assert controls
    items = {
        carrier: [
            items_of(f, n, coordinator_with(carrier)) for f, n in zip(folders, NAMES, strict=True)
        ]
        for carrier in ("timestamp", "commit-log")
    }
    return Recorded(cluster, folders, items, [node.anchor for node in anchored], anew)
