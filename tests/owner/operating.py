"""The operations of an installation over a real store, without a capture around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc.base.clock import SystemClock
from cdc.base.position import START, Position, TransactionName
from cdc.changelog.errors import LogCollected
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import FeedInfo, UpstreamInfo
from cdc.schema.snapshot import Schema, Wanted
from cdc.server.upstream_errors import UpstreamNotFound
from owner.operations import Created, Operations
from owner.requests import NewChangefeed
from sink.contract import Destination
from sink.open import open_sink

START_TS = 1000
# Where the rows of shop.keyed go, as a sink of files has it.
DESTINATION: Destination = ("shop/keyed", 0)


def schema_of(tables: Mapping[str, str]) -> Schema:
    """A schema of the database ``shop``: tables by name, by what CREATE TABLE has in brackets."""
    texts = {f"shop.{name}": f"CREATE TABLE `{name}` ({body})" for name, body in tables.items()}
    server = {"kind": "mariadb", "version": "11.4.2"}
    return Schema({"ts": 1, "server": server, "databases": {"shop": {}}, "tables": texts})


@dataclass
class Installation:
    """The ports of operations and what has come through them.

    ``calls`` are those of the ports, in order; ``overtaking`` are called when the schema is asked
    for, and a new snapshot is of ``schema_ts``; the log holds what lies above ``kept_ts``.
    """

    store: EmbeddedStore
    keys: Keys = field(default_factory=Keys)
    clock: SystemClock = field(default_factory=SystemClock)
    schema: Schema = field(default_factory=lambda: schema_of({}))
    schema_ts: int = START_TS
    kept_ts: int = 0
    overtaking: list[Callable[[], Any]] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        upstream = UpstreamInfo(name="main", uri="mysql://h/").model_dump_json().encode()
        self.store.txn([], [Put(self.keys.upstream_info("main"), upstream)])

    @property
    def operations(self) -> Operations:
        """All that an operator can do here."""
        return Operations(
            self.store,
            self.keys,
            self.clock,
            self,
            self,
            forget_metrics=lambda feed: self.calls.append(("forget_metrics", feed)),
            slots=lambda _: 2,
        )

    def info(self, name: str) -> UpstreamInfo:
        """One upstream; ``main`` is the only one."""
        self.calls.append(("info", name))
        if name != "main":
            raise UpstreamNotFound("there is no such upstream", object=f"upstream {name}")
        return UpstreamInfo(name=name, uri="mysql://h/")

    def schema_at(self, name: str, ts: int, wanted: Wanted | None = None) -> tuple[int, Schema]:
        """The one schema, at any ts."""
        self.calls.append(("schema_at", name, ts))
        if self.overtaking:
            self.overtaking.pop(0)()
        return ts or self.schema_ts, self.schema

    def check_replica(self, name: str, uri: str) -> None:
        """Any will do."""
        self.calls.append(("check_replica", name, uri))

    def revive(self, name: str) -> None:
        """There is no puller."""
        self.calls.append(("revive", name))

    def check_kept(self, upstream: str, ts: int) -> None:
        """Hold ``ts`` against ``kept_ts``."""
        self.calls.append(("check_kept", upstream, ts))
        if ts < self.kept_ts:
            raise LogCollected("it is gone")

    def transaction_at(self, upstream: str, ts: int) -> TransactionName:
        """One for each ts."""
        return TransactionName(ts, "0-1", ts % 1000, 1)

    def create(self, feed: str, sink: str, **more: Any) -> FeedInfo:
        """Create a changefeed of the upstream."""
        return self.create_with_warnings(feed, sink, **more).info

    def create_with_warnings(self, feed: str, sink: str, **more: Any) -> Created:
        """The same, with what its user is told."""
        return self.operations.create(NewChangefeed(feed, "main", sink, **more))


def deliver(info: FeedInfo, ts: int) -> dict[Destination, Position]:
    """What a processor of this changefeed finds delivered when it recovers; then a window to ts."""
    opened = open_sink(info.sink_uri, {})
    epoch = info.epoch << 16
    found = opened.driver().recover(info.ledger_id, epoch, 2, (), START)
    sends = opened.deliverer(info.ledger_id, epoch, 0)
    destinations = found.layout.destinations()[:1] or (DESTINATION,)
    sends.begin(destinations)
    sends.commit({d: Position(ts) for d in destinations})
    sends.abort()
    return dict(found.positions)


def positions(info: FeedInfo) -> list[int]:
    """How far the ledger says that the changefeed is."""
    found = open_sink(info.sink_uri, {}).driver().delivered(info.ledger_id)
    return [p.ts for p in found.values()]
