"""The sinks that keep a ledger, as the contract's tests see them: a URI and a changefeed's name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc.base.ids import FeedId
from cdc.base.position import START, Position
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.table import Table
from sink.contract import Deliverer, Destination, Recovered, Sink, SinkDriver
from sink.open import open_sink
from sink.schema_change import SchemaChanger
from tests.servers import Broker, Database

_SESSION = Session(mariadb=True, version=(11, 4, 0), default_schema="shop")
SLOTS = 4


def _tables() -> list[Table]:
    catalog = Catalog()
    for statement in (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.a (id INT PRIMARY KEY)",
        "CREATE TABLE shop.b (id INT PRIMARY KEY)",
    ):
        catalog = apply(catalog, read_ddl(statement, _SESSION))
    found = [catalog.table("shop", name) for name in ("a", "b")]
    return [table for table in found if table is not None]


TABLES = _tables()


@dataclass
class Target:
    """One sink, with a changefeed's name that nobody else uses."""

    uri: str
    name: str
    _open: list[Deliverer] = field(default_factory=list)

    @property
    def sink(self) -> Sink:
        """The sink, opened anew as each process does."""
        return open_sink(self.uri, {})

    @property
    def driver(self) -> SinkDriver:
        """Its driver, another one each time."""
        return self.sink.driver()

    def feed(self, incarnation: int = 1, installation: str = "ours") -> FeedId:
        """A changefeed of the target's name."""
        return FeedId(installation, self.name, incarnation)

    def recover(self, feed: FeedId, epoch: int, at: Position = START, **more: Any) -> Recovered:
        """Take the changefeed over, with two tables."""
        return self.driver.recover(feed, epoch, SLOTS, TABLES, at, **more)

    def worker(self, feed: FeedId, epoch: int, slot: int = 0) -> Deliverer:
        """A worker of an epoch; it is given up when the test ends."""
        made = self.sink.deliverer(feed, epoch, slot)
        self._open.append(made)
        return made

    @contextmanager
    def changer(self, feed: FeedId, epoch: int) -> Iterator[SchemaChanger]:
        """Who carries out schema changes in an epoch."""
        made = self.sink.changer(feed, epoch)
        try:
            yield made
        finally:
            made.close()

    def close(self) -> None:
        """Give workers up, and the ledger with them."""
        for worker in self._open:
            with suppress(Exception):
                worker.abort()
        for installation in ("ours", "others"):
            with suppress(Exception):
                self.driver.forget(self.feed(1 << 20, installation), SLOTS)


def commit(worker: Deliverer, positions: Mapping[Destination, Position]) -> None:
    """A window without rows."""
    worker.begin(positions.keys())
    worker.commit(positions)


def at(destinations: Collection[Destination], ts: int) -> dict[Destination, Position]:
    """All of them at one ts."""
    return dict.fromkeys(destinations, Position(ts))


def kafka(broker: Broker, name: str) -> Target:
    """A topic with three partitions."""
    uri = f"kafka://{broker.bootstrap}/{name}?protocol=canal-json&partition-num=3"
    return Target(f"{uri}&write-timeout=10s", name)


def mysql(server: Database, name: str) -> Target:
    """Three buckets."""
    return Target(f"{server.uri()}/?worker-count=3", name)


def file(folder: Path, name: str) -> Target:
    """A folder of its own."""
    return Target(f"file://{folder}?protocol=canal-json", name)


def binlog(folder: Path, name: str, streams: int) -> Target:
    """A folder of its own, with so many streams."""
    return Target(f"binlog://{folder}?streams={streams}", name)
