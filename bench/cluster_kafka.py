"""``cluster_kafka``: two data nodes of a distributed database into a topic, beside one server.

The same rows in transactions of the same size, once of one server, once as branches of XA
transactions on two. What a cluster costs is told by processor time as well as by the clock: two
nodes are pulled by two threads, where one server has one.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from bench import cluster_load, kafka, load, ours
from bench.figures import Figure
from bench.gate import Gate
from bench.ground import ground
from bench.processes import cpu_by_kind
from bench.settings import Settings
from bench.topic import End
from tests import servers
from tests.servers.broker import Broker
from tests.servers.database import Database

_NODES = 2
_TRANSACTIONS = 50_000
_TOPIC = "cluster"
_OURS = ("capture", "jvm", "workers")
# Of each node in a transaction, and the least that is asked of a node's share of the rate.
_ROWS = {"cluster_kafka": 10, "cluster_kafka_small": 1}
_ASKED = 0.8


def cluster(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Rows a second, and rows for each second of processor, over those of one server."""
    count = settings.rows or _TRANSACTIONS
    figures: list[Figure] = []
    detail: dict[str, Any] = {}
    more = ["--max-allowed-packet=64M"]
    with ExitStack() as stack:
        place = stack.enter_context(ground(settings.server))
        nodes = [
            stack.enter_context(
                servers.database(settings.server, options=[f"--server-id={n}", *more])
            )
            for n in range(1, 1 + _NODES)
        ]
        for number, node in enumerate(nodes, 1):
            table = load.CREATE[1].replace(f".{load.TABLE} (", f".{cluster_load.table(number)} (")
            node.execute(load.CREATE[0], table, *cluster_load.CREATE)
        with _streaming(nodes, place.broker, settings) as feed:
            for name, rows in _ROWS.items():
                transactions = count if rows == 1 else max(count * 2 // rows, 1)
                many = feed.runs(name, transactions, rows, settings.runs)
                detail[name] = {"cluster": many}
        for name, rows in _ROWS.items():
            size = rows * _NODES
            total = detail[name]["cluster"][0]["rows"]
            one = kafka.Load(
                f"{name} (one server)", total, lambda n, s=size: load.bulk(n, s), total
            )
            alone, _, _ = kafka.our_runs(
                one, place, settings, topic=f"{name}-alone".replace("_", "-")
            )
            detail[name]["single"] = alone
            figures += _figures(name, total, detail[name])
    return figures, detail


def _figures(name: str, rows: int, runs: dict[str, list[dict[str, Any]]]) -> list[Figure]:
    rate = {k: statistics.median(r["rows_per_s"] for r in v) for k, v in runs.items()}
    cpu = {
        k: statistics.median(sum(r["cpu_s"][kind] for kind in _OURS) for r in v) / rows * 1e6
        for k, v in runs.items()
    }
    peer = f"one server (asked for: {_ASKED})"
    unit = "s per million rows"
    return [
        Figure.more(name, rate["cluster"], "rows/s", peer, rate["single"]),
        Figure.less(f"{name}_cpu", cpu["cluster"], unit, peer, cpu["single"]),
    ]


class _Feed:
    def __init__(
        self, server: Any, nodes: Sequence[Database], gates: Sequence[Gate], broker: Broker
    ) -> None:
        self._server, self._nodes, self._gates, self._broker = server, nodes, gates, broker
        self.clock = cluster_load.Clock()

    def check(self) -> None:
        for feed in self._server.cli_json("changefeed", "list", "--all"):
            if feed.get("state") != "normal":
                raise RuntimeError(f"changefeed: {feed}")

    def runs(self, name: str, transactions: int, rows: int, count: int) -> list[dict[str, Any]]:
        """A run to warm up, and ``count`` that are measured."""
        end, found = End(self._broker, _TOPIC), []
        for _ in range(count + 1):
            for gate in self._gates:
                gate.close()
            cluster_load.empty(self._nodes)
            written = cluster_load.run(self._nodes, self.clock, transactions, rows)
            offsets, before = end.offsets(), cpu_by_kind(self._server.process.pid)
            began = min([gate.open() for gate in self._gates])
            finished, delivered = end.wait(offsets, written, self.check)
            after = cpu_by_kind(self._server.process.pid)
            if delivered != written:
                raise RuntimeError(f"{delivered} messages for {written} rows")
            seconds = finished - began
            cpu = {k: round(after[k] - before[k], 2) for k in after}
            one = {
                "rows": written,
                "rows_per_s": written / seconds,
                "seconds": seconds,
                "cpu_s": cpu,
            }
            print(f"{name}: {one['rows_per_s']:,.0f} rows/s {cpu}", flush=True)
            found.append(one)
        end.close()
        return found[1:]


@contextmanager
def _streaming(nodes: Sequence[Database], broker: Broker, settings: Settings) -> Iterator[_Feed]:
    gates = [Gate(node, "ours_cluster") for node in nodes]
    for gate in gates:
        gate.create()
    End.create_topic(broker, _TOPIC, settings.partitions)
    with ours.server() as server:
        feed = _Feed(server, nodes, gates, broker)
        words = []
        for number, (gate, node) in enumerate(zip(gates, nodes, strict=True), 1):
            uri = f"mysql://{gate.user}:{gate.password}@127.0.0.1:{node.port}"
            words += ["--node", f"n{number}={uri}"]
        file = server.data_dir.parent / "feed.toml"
        file.write_text(f'[filter]\nrules = ["{load.SCHEMA}.*"]\n')
        sink = (
            f"kafka://{broker.bootstrap}/{_TOPIC}?protocol=canal-json&compression={settings.codec}"
        )
        with _beating(nodes, feed.clock):
            kind = ("--kind", "cluster", "--carrier", "timestamp")
            server.cli_json("upstream", "create", "-u", _TOPIC, *kind, *words)
            where = ("--sink-uri", sink, "--config", str(file))
            server.cli_json("changefeed", "create", "-c", _TOPIC, "--upstream", _TOPIC, *where)
        yield feed


@contextmanager
def _beating(nodes: Sequence[Database], clock: cluster_load.Clock) -> Iterator[None]:
    """Heartbeats for as long as the order has to begin."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.1):
            cluster_load.beat(nodes, clock)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
