"""A target that has gone back, and a data directory that has: an error, and never rows left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.base.ids import FeedId
from cdc.base.position import Position, stand
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Acknowledgements, FeedInfo, FeedStatus
from owner.rewinding import rewound
from processor.acknowledged import Acknowledged, LogBehindLedger, note_logs
from sink.mysql.driver import MysqlDriver
from sink.mysql.settings import MysqlSettings
from tests.processor.in_process import InProcessJobs, Running
from tests.processor.to_mysql import Log
from tests.servers import Database
from tests.sink_mysql.replay import content
from tests.waiting import until

KEYS = Keys()
FEED = "gone-back"
ID = FeedId("", FEED, 0)
ONE = "worker-count=1"


@pytest.fixture(scope="module")
def log(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return Log(tmp_path_factory.mktemp("gone") / "log", mariadb, "to_go_back", rounds=20)


@pytest.fixture
def target(database: Callable[..., Database], log: Log) -> Database:
    """Another server, as the source was at the start."""
    found = database("mariadb-10.11")
    log.empty(found, FEED)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    yield made
    made.close()


def deliver(log: Log, target: Database, upto: int = 0, **how: object) -> Running:
    """Deliver up to a ts, or to the end."""
    jobs = how.pop("jobs", None) or InProcessJobs()
    if upto:
        how["barrier_ts"] = upto
    running = log.run(target, FEED, jobs, ONE, **how)  # type: ignore[arg-type]
    try:
        wanted = upto or running.upto
        until(lambda: running.reports and running.reports[-1].checkpoint_ts >= wanted, "it", 60)
    finally:
        running.stop()
    return running


def test_a_restored_target_is_an_error_until_it_is_rewound(
    log: Log, target: Database, store: EmbeddedStore
) -> None:
    middle = log.large()
    end = deliver(log, target, middle, store=store).upto
    half = content(target, log.schema)
    deliver(log, target, epoch=2, checkpoint_ts=middle, store=store)
    assert content(target, log.schema) == log.wanted
    # The backup of the moment when half was there, ledger included.
    log.empty(target, FEED)
    deliver(log, target, middle)
    assert content(target, log.schema) == half
    lost = log.run(target, FEED, InProcessJobs(), ONE, epoch=3, checkpoint_ts=end, store=store)
    said = lost.ended().error
    lost.stop()
    assert said is not None
    assert (said.code, said.kind) == ("TG:ErrLedgerWentBack", "definite")
    assert "--rewind" in said.hint
    assert content(target, log.schema) == half
    # What `resume --rewind` makes of it.
    found = MysqlDriver(MysqlSettings.parse(f"{target.uri()}/?{ONE}")).delivered(ID)
    after = rewound(FeedStatus(checkpoint_ts=end, main_ts=end), [stand(p) for p in found.values()])
    assert after.checkpoint_ts == after.main_ts == middle
    kept = Acknowledgements.of(0, found, None)
    store.txn([], [Put(KEYS.acknowledged(FEED), kept.model_dump_json().encode())])
    deliver(log, target, epoch=4, checkpoint_ts=after.main_ts, store=store)
    assert content(target, log.schema) == log.wanted


def test_a_target_that_goes_back_between_two_windows(
    log: Log, target: Database, store: EmbeddedStore
) -> None:
    """Nothing else fails, so the window that finds it is the first to know."""
    middle, jobs = log.large(), InProcessJobs()
    running = log.run(target, FEED, jobs, ONE, barrier_ts=middle, store=store)
    until(lambda: running.reports and running.reports[-1].checkpoint_ts >= middle, "half", 60)
    before, windows = content(target, log.schema), len(jobs.jobs)
    target.execute(f"update tidegate.ledger set ts = ts - 1 where changefeed = '{FEED}'")
    running.hold({}, running.upto)
    said = running.ended().error
    running.stop()
    assert said is not None
    assert said.code == "TG:ErrLedgerWentBack"
    assert len(jobs.jobs) == windows + 1
    assert content(target, log.schema) == before


def test_a_data_directory_of_before_is_an_error(
    log: Log, target: Database, store: EmbeddedStore
) -> None:
    middle = log.large()
    end = deliver(log, target).upto
    # As a version wrote it that did not name transactions.
    target.execute(f"update tidegate.ledger set held = NULL where changefeed = '{FEED}'")
    info = FeedInfo(id=FEED, upstream="u", sink_uri="mysql://h/", start_ts=log.start_ts)
    store.txn([], [Put(KEYS.feed_info(FEED), info.model_dump_json().encode())])
    # Its log ends here, and will have passed the ledger before anybody asks that.
    note_logs(store, KEYS, lambda _: middle)
    old = log.run(target, FEED, InProcessJobs(), ONE, epoch=2, checkpoint_ts=middle, store=store)
    said = old.ended().error
    old.stop()
    assert said is not None
    assert (said.code, said.kind) == ("TG:ErrLogBehindLedger", "definite")
    # A server that is started again does not forget it.
    note_logs(store, KEYS, lambda _: end)
    with pytest.raises(LogBehindLedger):
        Acknowledged(store, KEYS, ID, SystemClock()).check({("mysql", 0): Position(end)})


def test_a_data_directory_that_was_not_restored_is_none(store: EmbeddedStore) -> None:
    info = FeedInfo(id=FEED, upstream="u", sink_uri="mysql://h/", start_ts=1)
    store.txn([], [Put(KEYS.feed_info(FEED), info.model_dump_json().encode())])
    note_logs(store, KEYS, lambda _: 100)
    at = {("mysql", 0): Position(100)}
    Acknowledged(store, KEYS, ID, SystemClock()).check(at)
    # What it delivers from here on is above that, also for the next to take over.
    Acknowledged(store, KEYS, ID, SystemClock()).check({("mysql", 0): Position(900)})
    # Another incarnation's ledger is another one.
    newer = FeedId("", FEED, 1)
    known = Acknowledged(store, KEYS, ID, SystemClock())
    known.add(at)
    known.save()
    Acknowledged(store, KEYS, newer, SystemClock()).check({})


def test_tables_that_stand_lower_are_rewound_to_where_they_stand() -> None:
    from cdc.base.position import Stand

    status = FeedStatus(checkpoint_ts=80, main_ts=200, tables={"s.a": 80, "s.b": 150})
    stands = [Stand(100, held={"s.c": Position(70)}), Stand(120)]
    after = rewound(status, stands)
    assert (after.main_ts, after.checkpoint_ts) == (100, 70)
    assert after.tables == {"s.a": 80, "s.c": 70}
