"""The demo of a distributed database: ``python -m bench.cluster_db_demo``; 0 only if all is proven.

Three MariaDB under a coordinator of our own move money between each other in XA transactions. One
capture delivers them to a topic, to one table of a fourth server, and into binlog files, which a
fifth follows as a stock replica. The capture is killed, a node is frozen, the capture is killed
again; meanwhile somebody adds up the target's money.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.narration import command, exit_code, tell
from tests import servers
from tests.cluster import delivered
from tests.cluster.coordinator import DistributedDatabase
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.servers import Broker, Database
from tests.servers.process import data_folder
from tests.sink_binlog.following import ServedInPlace, at_the_end, follow
from tests.waiting import until

_NODES = 3
_TOPIC, _PARTITIONS = "bank_accounts", 3
_FEEDS = ("topic", "table", "files")
_WORKERS = 4
_CALM_S, _FROZEN_S = 4.0, 5.0
_CATCH_UP_S = 180.0


@dataclass
class _Stage:
    cluster: DistributedDatabase
    capture: CaptureProcess
    broker: Broker
    target: Database
    replica: Database
    served: ServedInPlace
    began_s: float


def _set_up(stack: ExitStack, seed: int) -> _Stage:
    began = time.monotonic()
    tell("starting three MariaDB 11.4, which are one database; two more; Kafka 4.1; one capture")
    more = ["--innodb-lock-wait-timeout=60"]
    nodes = [
        stack.enter_context(servers.database("mariadb-11.4", options=[f"--server-id={n}", *more]))
        for n in range(1, 1 + _NODES)
    ]
    target = stack.enter_context(servers.database("mariadb-11.4"))
    alone = ["--server-id=77", "--skip-log-bin"]
    replica = stack.enter_context(servers.database("mariadb-11.4", options=alone))
    broker = stack.enter_context(servers.broker())
    cluster = DistributedDatabase(nodes, seed, spread=delivered.SPREAD)
    cluster.create()
    stack.callback(cluster.silence.set)
    stack.callback(cluster.stop.set)
    folder, _ = data_folder(None, "cluster-db-demo")
    capture = CaptureProcess(folder)
    stack.callback(capture.close)
    capture.start()
    cluster.beat()
    words = [w for n, db in enumerate(nodes, 1) for w in ("--node", f"n{n}={db.uri()}")]
    kind = ("--kind", "cluster", "--carrier", "commit-log")
    command(capture, "upstream", "create", "-u", "bank", *kind, *words)
    for server in (target, replica):
        delivered.make_target(server, delivered.money(nodes))
    topics.create(broker.bootstrap, _TOPIC, partitions=_PARTITIONS)
    config = capture.folder / "cluster.toml"
    config.write_text(delivered.CONFIG)
    sinks = (
        f"kafka://{broker.bootstrap}/{_TOPIC}?protocol=canal-json&enable-tidb-extension=true",
        f"mysql://root@127.0.0.1:{target.port}/?transaction-atomicity=global",
        f"binlog://{folder / 'binlogs'}",
    )
    for feed, sink in zip(_FEEDS, sinks, strict=True):
        where = ("--sink-uri", sink, "--config", str(config))
        command(capture, "changefeed", "create", "-c", feed, "--upstream", "bank", *where)
    served = ServedInPlace(folder / "binlogs")
    stack.callback(served.server.close)
    return _Stage(cluster, capture, broker, target, replica, served, began)


def _follow(stage: _Stage) -> None:
    """Have the fifth server follow the files, from the first of them."""
    until(stage.served.server.files, "there is a file", _CATCH_UP_S)
    follow(stage.replica, stage.served.server.port, stage.served.server.files()[0].name)
    tell("the fifth server follows the binlog of all three, as a stock replica")


def _kill(stage: _Stage) -> None:
    """Kill the capture while transactions are under way, and start it again."""
    before = len(stage.cluster.journal.distributed)
    stage.capture.kill()
    stage.capture.start()
    missed = len(stage.cluster.journal.distributed) - before
    tell(f"capture killed, and back; meanwhile {missed:,} transactions over several nodes")


def _freeze(stage: _Stage) -> None:
    """Stop a node's process for a while: the others must wait for it, by name."""
    node = stage.cluster.nodes[1]
    node.signal(signal.SIGSTOP)
    try:
        until(lambda: _waits_for(stage) == "n2", "the node that is frozen is named")
        time.sleep(_FROZEN_S)
    finally:
        node.signal(signal.SIGCONT)
    until(lambda: not _waits_for(stage), "all goes on", _CATCH_UP_S)
    tell("node n2 frozen: waits_for named it, nothing was delivered past it, and all goes on")


def _waits_for(stage: _Stage) -> str:
    found: str = stage.capture.ask("GET", "/upstreams/bank")["waits_for"]
    return found


def _judge(stage: _Stage, sums: dict[int, int]) -> bool:
    """Print what was found, and whether it is what was promised."""
    cluster = stage.cluster
    money = delivered.money(cluster.nodes)
    read = "SELECT id, balance FROM " + delivered.TARGET + ".accounts"
    same = sorted(stage.target.execute(read)) == money
    followed = sorted(stage.replica.execute(read)) == money
    verdict = delivered.replay(cluster, topics.read(stage.broker.bootstrap, [_TOPIC]))
    journal = cluster.journal
    made = len(journal.distributed.keys() - journal.heartbeats)
    fold = sorted(verdict.balances.items()) == money
    whole = delivered.whole(_NODES)
    torn = sum(count for money_, count in sums.items() if money_ != whole)
    tell(f"topic: {verdict.transactions:,} transactions, {verdict.distributed:,} of several nodes;")
    tell(
        f"       the coordinator committed {made:,} of these, and rolled {journal.rolled_back} back"
    )
    tell(f"       {verdict.torn} torn, {verdict.misplaced} rows lost, repeated or in another order")
    tell(f"       its fold is {'' if fold else 'NOT '}the database")
    tell(f"table: read {sum(sums.values()):,} times while it was written, {torn} times torn;")
    tell(f"       at the end it is {'' if same else 'NOT '}the database")
    tell("replica: a stock MariaDB that follows the binlog of all nodes;")
    tell(f"       at the end it is {'' if followed else 'NOT '}the database")
    proven = verdict.distributed == made and not verdict.torn and not verdict.misplaced
    return proven and fold and same and followed and not torn and sums.get(whole, 0) > 0


def _run(stack: ExitStack, seed: int, rate: float) -> bool:
    stage = _set_up(stack, seed)
    cluster, capture = stage.cluster, stage.capture
    with delivered.Reader(stage.target) as reader:
        cluster.start(_WORKERS, pause_s=_WORKERS / rate)
        tell(f"under load after {time.monotonic() - stage.began_s:.0f} s")
        for blow in (_follow, _kill, _freeze, _kill):
            time.sleep(_CALM_S)
            blow(stage)
        time.sleep(_CALM_S)
        cluster.rest()
        for feed in _FEEDS:
            capture.wait_checkpoint(feed, timeout_s=_CATCH_UP_S)
        at_the_end(stage.replica, stage.served)
    proven = _judge(stage, reader.sums)
    cluster.finish()
    tell(f"{time.monotonic() - stage.began_s:.0f} s")
    return proven


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if no transaction was torn, lost or repeated."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_db_demo")
    parser.add_argument("--rate", type=float, default=100, help="transactions a second, at most")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    return exit_code(lambda stack: _run(stack, chosen.seed, chosen.rate))


if __name__ == "__main__":
    sys.exit(main())
