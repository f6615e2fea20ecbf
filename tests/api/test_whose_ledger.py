"""Changefeeds of one id: in two installations, created twice at once, resumed from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.api import create as creation
from cdc.api.create import LedgerForeign, RewindRefused
from cdc.api.models import CreateChangefeed
from cdc.base.clock import SystemClock
from cdc.base.position import START, Position
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import FeedInfo, FeedState, FeedStatus, UpstreamInfo
from cdc.schema.snapshot import Schema
from owner import admin
from owner.admin import ChangefeedExists
from processor.acknowledged import Acknowledged
from sink.contract import Destination
from sink.open import open_sink
from tests.servers import Broker, Database

SCHEMA = Schema({"ts": 1, "server": {"kind": "mariadb", "version": "11.4.2"},
                 "databases": {}, "tables": {}})  # fmt: skip
START_TS = 1000


@dataclass
class Installation:
    """All that creation needs of a capture; ``asked`` are called when the schema is asked for."""

    store: EmbeddedStore
    keys: Keys = field(default_factory=Keys)
    clock: SystemClock = field(default_factory=SystemClock)
    asked: list[Callable[[], Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        upstream = UpstreamInfo(name="main", uri="mysql://h/").model_dump_json().encode()
        self.store.txn([], [Put(self.keys.upstream_info("main"), upstream)])

    @property
    def upstreams(self) -> Any:
        return SimpleNamespace(info=lambda _: None, schema_at=self._schema, revive=lambda _: None)

    @property
    def owner_logs(self) -> Any:
        return SimpleNamespace(log=lambda _: SimpleNamespace(check_kept=lambda _: None))

    @property
    def metrics(self) -> Any:
        return SimpleNamespace(forget_feed=lambda _: None)

    def slots(self, feed: str) -> int:
        return 2

    def _schema(self, name: str, ts: int) -> tuple[int, Schema]:
        if self.asked:
            self.asked.pop(0)()
        return ts or START_TS, SCHEMA

    def create(self, feed: str, sink: str, **more: str) -> FeedInfo:
        wanted = CreateChangefeed(changefeed_id=feed, upstream="main", sink_uri=sink, **more)
        return creation.create(self, wanted)  # type: ignore[arg-type]

    def resume(self, feed: str, ts: int) -> FeedInfo:
        return creation.resume(self, feed, ts)  # type: ignore[arg-type]

    def remove(self, feed: str) -> None:
        creation.remove(self, feed)  # type: ignore[arg-type]


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[[str], Installation]]:
    """Return a function that makes an installation with a store of its own."""
    made: list[Installation] = []

    def make(name: str) -> Installation:
        made.append(Installation(EmbeddedStore(tmp_path / name, SystemClock())))
        return made[-1]

    yield make
    for one in made:
        one.store.close()


@pytest.fixture(params=["mysql", "kafka"])
def sink(request: pytest.FixtureRequest) -> str:
    """The URI of a sink with a ledger."""
    if request.param == "mysql":
        mariadb: Database = request.getfixturevalue("mariadb")
        return f"{mariadb.uri()}/?worker-count=1"
    broker: Broker = request.getfixturevalue("broker")
    topic = request.getfixturevalue("topic_prefix")
    return f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json"


@pytest.fixture
def feed(fresh_name: str) -> str:
    """A changefeed id of this test alone."""
    return fresh_name.replace("_", "-")


def deliver(info: FeedInfo, ts: int) -> dict[Destination, Position]:
    """What a processor of this changefeed finds delivered when it recovers; then a window to ts."""
    opened = open_sink(info.sink_uri, {})
    epoch = info.epoch << 16
    found = opened.driver().recover(info.ledger_id, epoch, 2, (), START)
    sends = opened.deliverer(info.ledger_id, epoch, 0)
    destinations = found.layout.destinations()[:1] or (("t", 0),)
    sends.begin(destinations)
    sends.commit({d: Position(ts) for d in destinations})
    sends.abort()
    return dict(found.positions)


def positions(info: FeedInfo) -> list[int]:
    """How far the ledger says that the changefeed is."""
    found = open_sink(info.sink_uri, {}).driver().delivered(info.ledger_id)
    return [p.ts for p in found.values()]


def test_a_changefeed_of_another_installation_is_refused(
    install: Callable[[str], Installation], sink: str, feed: str
) -> None:
    ours, theirs = install("ours"), install("theirs")
    running = theirs.create(feed, sink)
    deliver(running, 2000)
    with pytest.raises(LedgerForeign) as refused:
        ours.create(feed, sink)
    assert running.installation in refused.value.hint
    assert ours.store.get(ours.keys.feed_info(feed)) is None
    assert positions(running) == [2000]
    # Another id is another ledger.
    other = ours.create(feed + "-b", sink)
    assert deliver(other, 1500) == {}
    assert positions(running) == [2000]
    # Their data directory is gone for good: said by name, its entries go.
    with pytest.raises(LedgerForeign):
        ours.create(feed, sink, replace_installation="somebody")
    mine = ours.create(feed, sink, replace_installation=running.installation)
    assert positions(running) == []
    assert deliver(mine, 1200) == {}


def test_created_twice_at_once(
    install: Callable[[str], Installation], sink: str, feed: str
) -> None:
    """The client of the first has timed out; the second runs when the first comes to its end."""
    here = install("ours")
    second: list[FeedInfo] = []

    def overtake() -> None:
        second.append(here.create(feed, sink))
        deliver(second[0], 2000)

    here.asked.append(overtake)
    with pytest.raises(ChangefeedExists):
        here.create(feed, sink)
    assert positions(second[0]) == [2000]
    # Nor is it fenced.
    assert list(deliver(second[0], 2000).values()) == [Position(2000)]


def test_created_anew_under_the_same_id(
    install: Callable[[str], Installation], sink: str, feed: str
) -> None:
    here = install("ours")
    first = here.create(feed, sink)
    deliver(first, 2000)
    here.remove(feed)
    assert positions(first) == []
    # Removed while the sink was away: what it left is not about its successor.
    second = here.create(feed, sink)
    deliver(second, 3000)
    admin.remove(here.store, here.keys, feed)
    third = here.create(feed, sink)
    assert deliver(third, 2500) == {}
    assert positions(second) == []


def test_resumed_from_another_ts(
    install: Callable[[str], Installation], sink: str, feed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = install("ours")
    info = here.create(feed, sink)
    deliver(info, 5000)
    admin.pause(here.store, here.keys, feed)

    def power_loss(*_: Any, **__: Any) -> FeedInfo:
        raise SystemExit

    with monkeypatch.context() as cut:
        cut.setattr(admin, "resume", power_loss)
        with pytest.raises(SystemExit):
            here.resume(feed, 2000)
    # Ledger and checkpoint still fit each other.
    assert positions(info) == [5000]
    _, info = admin.get(here.store, here.keys, feed)
    assert info.start_ts == START_TS
    again = here.resume(feed, 2000)
    # What still runs commits once more: that is not where the next one begins.
    deliver(info, 6000)
    assert deliver(again, 2500) == {}
    assert positions(again) == [2500]
    assert positions(info) == []


def test_rewound_to_where_the_sink_is(
    install: Callable[[str], Installation], sink: str, feed: str
) -> None:
    here = install("ours")
    info = here.create(feed, sink)
    deliver(info, 5000)
    admin.pause(here.store, here.keys, feed)
    with pytest.raises(RewindRefused, match="has all"):
        creation.rewind(here, feed)  # type: ignore[arg-type]
    known = Acknowledged(here.store, here.keys, info.ledger_id, here.clock)
    driver = open_sink(sink, {}).driver()
    known.add(dict.fromkeys(driver.delivered(info.ledger_id), Position(6000)))
    known.save()
    status = FeedStatus(checkpoint_ts=7000, main_ts=7000)
    put = Put(here.keys.feed_status(feed), status.model_dump_json().encode())
    here.store.txn([], [put])
    after = creation.rewind(here, feed)  # type: ignore[arg-type]
    assert (after.incarnation, after.state) == (info.incarnation, FeedState.NORMAL)
    assert admin.status(here.store, here.keys, after).checkpoint_ts == 5000
    known = Acknowledged(here.store, here.keys, info.ledger_id, here.clock)
    known.check(driver.delivered(info.ledger_id))
