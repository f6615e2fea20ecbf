"""News of a log wake whom they concern, and the others by turns: idle costs by turns alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.base.parts import Parts
from cdc.base.turns import PER_S, Turns
from cdc.changelog import origin
from cdc.changelog.origin import Origin
from cdc.changelog.writer import LogWriter
from processor.log_follower import _LOOK_S, LogFollower
from processor.log_news import Awaited
from tests.changelog.logs import StillClock, ddl, dml
from tests.processor.test_ddl_horizon import START, _log
from tests.waiting import until

MANY = PER_S + 50


class Idle:
    """A changefeed that counts how often it was woken."""

    def __init__(self, awaited: Awaited | None) -> None:
        self.awaited = awaited
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    with _log(tmp_path / "log") as writer:
        yield writer


def test_rows_ddls_and_tables_to_come_concern_somebody(writer: LogWriter, tmp_path: Path) -> None:
    """Where no turn is left whoever is woken is concerned."""
    for table in range(3):
        writer.table_id("test", f"t{table}", b"")
    waiting = {f"quiet{n}": Idle(Awaited({0}, 3)) for n in range(MANY)}
    waiting |= {"rows": Idle(Awaited({1}, 3)), "unseen": Idle(Awaited({0}, 2))}
    waiting |= {"any": Idle(None)}
    clock, parts = StillClock(), Parts()
    follower = LogFollower("up", tmp_path / "log", parts, clock)
    for name, feed in waiting.items():
        follower.add(name, feed)
    follower.start()
    ts = START

    def woken() -> set[str]:
        """Resolve more; who was woken by that. The one whom all concerns comes last of them."""
        nonlocal ts
        before = {name: feed.woken for name, feed in waiting.items()}
        ts += 10
        writer.commit(ts, {})
        until(lambda: waiting["any"].woken > before["any"], "whom all concerns is woken")
        return {name for name, feed in waiting.items() if feed.woken > before[name]}

    try:
        # The first look knows no ts to compare with; the second takes all turns that there are.
        until(lambda: all(feed.woken == 2 for feed in waiting.values()), "all were woken")
        woken()
        until(lambda: sum(f.woken > 2 for f in waiting.values()) == PER_S + 1, "all turns are over")
        assert woken() == {"any"}
        dml(writer, ts + 5, [(1, 1)])
        assert woken() == {"rows", "any"}
        dml(writer, ts + 5, [(2, 1)])
        assert woken() == {"unseen", "any"}
        ddl(writer, ts + 5, "CREATE TABLE other.t (i INT)")
        assert woken() == waiting.keys()
    finally:
        follower.stop()
        follower.join(60)


def test_whom_nothing_concerns_has_a_turn_though_nothing_more_comes(
    writer: LogWriter, tmp_path: Path
) -> None:
    """Else the last of what has come is told by nobody."""
    writer.table_id("test", "t", b"")
    quiet = [Idle(Awaited({1}, 1)) for _ in range(MANY)]
    clock, parts = StillClock(), Parts()
    follower = LogFollower("up", tmp_path / "log", parts, clock)
    for number, feed in enumerate(quiet):
        follower.add(f"quiet{number}", feed)
    follower.start()
    try:
        # The first look wakes all, whatever turns there are.
        until(lambda: all(feed.woken == 2 for feed in quiet), "all were woken")
        writer.commit(START + 10, {})
        until(lambda: sum(feed.woken == 3 for feed in quiet) == PER_S, "all turns are over")
        clock.ms += 1000
        until(lambda: all(feed.woken == 3 for feed in quiet), "the others have theirs")
        # Turns enough for others, and nobody is left who needs one.
        clock.ms += 1000
        time.sleep(2 * _LOOK_S)
    finally:
        follower.stop()
        follower.join(60)
    assert all(feed.woken == 3 for feed in quiet)
    assert not follower.keep(set())


def test_all_have_their_turn_in_time() -> None:
    names = [f"f{n}" for n in range(5 * PER_S)]
    turns, had = Turns(0.0), set[str]()
    for second in range(5):
        turns, now = turns.earned(float(second)).take(names)
        assert not had & set(now)
        had |= set(now)
    assert had == set(names)
    # Whoever asked nothing for long has no more than those of a second.
    assert len(turns.earned(1000.0).take(names)[1]) == PER_S


def test_news_of_a_log_that_takes_the_place_of_another_are_told(tmp_path: Path) -> None:
    folder, parts = tmp_path / "log", Parts()
    feed = Idle(None)
    follower = LogFollower("up", folder, parts, StillClock())
    follower.add("feed", feed)
    with _log(folder) as writer:
        origin.save(folder, Origin("one"))
        writer.commit(START + 1000, {})
        follower.start()
        until(lambda: feed.woken > 1, "it is woken")
    folder.rename(tmp_path / "before")
    try:
        with _log(folder) as writer:
            origin.save(folder, Origin("other"))
            for ts in range(START + 1, START + 4):
                before = feed.woken
                writer.commit(ts, {})
                until(lambda before=before: feed.woken > before, "it is woken")
        assert not parts.troubles()
    finally:
        follower.stop()
        follower.join(60)
