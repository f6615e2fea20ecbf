"""A throw-away Kafka cluster: KRaft nodes that are brokers and controllers at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.servers.broker import Broker, new_id
from tests.servers.errors import StartFailed

_ATTEMPTS = 3


@dataclass(frozen=True)
class Cluster:
    """Nodes 1 … n; every topic of Kafka's own has a replica on each."""

    brokers: tuple[Broker, ...]

    @property
    def bootstrap(self) -> str:
        """Return ``127.0.0.1:port`` of every node, separated by commas."""
        return ",".join(b.bootstrap for b in self.brokers)

    def node(self, number: int) -> Broker:
        """Return a node by its id, from 1."""
        return self.brokers[number - 1]

    def start(self) -> None:
        """Start what does not run. Nodes answer only once most of them are there."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(Broker.start, self.brokers))
        # The log of transactions is there, on as many nodes as it needs.
        self.brokers[0].await_ids()


@contextmanager
def cluster(nodes: int = 3, *, heap: str = "256m") -> Iterator[Cluster]:
    """Run a cluster while the context lasts. Two of three replicas must have what is written."""
    with ExitStack() as stack:
        for attempt in range(_ATTEMPTS):
            made = _make(nodes, heap)
            for one in made.brokers:
                stack.callback(one.close)
            try:
                made.start()
            except StartFailed as error:
                # The addresses of all nodes are in the settings of each: new ones for all.
                if "already in use" not in str(error) or attempt == _ATTEMPTS - 1:
                    raise
                stack.close()
                continue
            break
        yield made


def _make(nodes: int, heap: str) -> Cluster:
    cluster_id = new_id()
    brokers = tuple(
        Broker(
            {},
            heap=heap,
            folder=None,
            log_folder=None,
            sasl=False,
            with_tls=False,
            cluster_id=cluster_id,
        )
        for _ in range(nodes)
    )
    voters = ",".join(f"{n}@{b.controller}" for n, b in enumerate(brokers, 1))
    quorum = str(min(2, nodes))
    for number, one in enumerate(brokers, 1):
        one.options = {
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "min.insync.replicas": quorum,
            "transaction.state.log.replication.factor": str(nodes),
            "transaction.state.log.min.isr": quorum,
            "offsets.topic.replication.factor": str(nodes),
            # Leadership moves when a test moves it.
            "auto.leader.rebalance.enable": "false",
            "replica.lag.time.max.ms": "3000",
            # Long enough for three JVMs on a busy machine: who is only slow is not thrown out.
            "broker.session.timeout.ms": "6000",
            "controller.quorum.fetch.timeout.ms": "4000",
        }
    return Cluster(brokers)
