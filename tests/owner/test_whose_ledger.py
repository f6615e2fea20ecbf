"""Changefeeds of one id: in two installations, created twice at once, resumed from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.position import Position
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.messages import (
    CopyState,
    CopyStatus,
    FeedInfo,
    FeedState,
    FeedStatus,
    SnapshotProgress,
)
from owner import admin, orders
from owner.admin import ChangefeedExists
from owner.admission import LedgerForeign
from owner.requests import NewCopy
from owner.rewinding import RewindRefused
from processor.acknowledged import Acknowledged
from sink.open import open_sink
from tests.owner.operating import START_TS, Installation, deliver, positions
from tests.servers import Broker, Database


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
        ours.create(feed, sink, replaced_installation="somebody")
    mine = ours.create(feed, sink, replaced_installation=running.installation)
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

    here.overtaking.append(overtake)
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
    here.operations.remove(feed)
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
            here.operations.resume(feed, 2000)
    # Ledger and checkpoint still fit each other.
    assert positions(info) == [5000]
    _, info = admin.get(here.store, here.keys, feed)
    assert info.start_ts == START_TS
    again = here.operations.resume(feed, 2000)
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
        here.operations.rewind(feed)
    known = Acknowledged(here.store, here.keys, info.ledger_id, here.clock)
    driver = open_sink(sink, {}).driver()
    known.add(dict.fromkeys(driver.delivered(info.ledger_id), Position(6000)))
    known.save()
    status = FeedStatus(checkpoint_ts=7000, main_ts=7000)
    put = Put(here.keys.feed_status(feed), status.model_dump_json().encode())
    here.store.txn([], [put])
    after = here.operations.rewind(feed)
    assert (after.incarnation, after.state) == (info.incarnation, FeedState.NORMAL)
    assert admin.status(here.store, here.keys, after).checkpoint_ts == 5000
    known = Acknowledged(here.store, here.keys, info.ledger_id, here.clock)
    known.check(driver.delivered(info.ledger_id))


def test_rows_that_were_copied_above_are_copied_again(
    install: Callable[[str], Installation], sink: str, feed: str
) -> None:
    here = install("ours")
    info = here.create(feed, sink)
    deliver(info, 5000)
    admin.pause(here.store, here.keys, feed)
    for place_ts in (4000, 5500, 5600):
        order = orders.add(here.store, here.keys, feed, NewCopy(("shop.keyed",)), 1)
        done = CopyStatus(
            id=order.id,
            state=CopyState.CANCELLED if place_ts == 5600 else CopyState.DELIVERED,
            tables=["shop.keyed"],
            progress=SnapshotProgress(rows=7, base_ts=place_ts - 10, ts=place_ts, low_ts=3000),
        )
        put = Put(here.keys.copy_status(feed, order.id), done.model_dump_json().encode())
        here.store.txn([], [put])
    known = Acknowledged(here.store, here.keys, info.ledger_id, here.clock)
    driver = open_sink(sink, {}).driver()
    known.add(dict.fromkeys(driver.delivered(info.ledger_id), Position(6000)))
    known.save()
    status = FeedStatus(checkpoint_ts=7000, main_ts=7000)
    here.store.txn([], [Put(here.keys.feed_status(feed), status.model_dump_json().encode())])
    here.operations.rewind(feed)
    after = orders.ordered(here.store, here.keys, feed)
    states = [after.status(order.id).state for order in after.asked]
    assert states == [CopyState.DELIVERED, CopyState.COPYING, CopyState.CANCELLED]
    # Nothing is known of where its rows lie: the place that they had is below what comes next.
    assert after.status("2").progress is None
