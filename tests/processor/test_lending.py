"""A window's tasks are dealt out to captures, and who fails is left alone for a while."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.base.errors import DefiniteError, TransientError
from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.changelog.remote.access import LogAccess
from processor.jobs import Captures
from processor.lending import BorrowedJobs, LenderLost, LentWorkers, runs_at
from processor.task_messages import Descriptor, FeedPlan
from sink.contract import Layout
from tests.changelog.logs import StillClock
from tests.processor.workers import Workers
from tests.waiting import until

_CAPTURES = ("here", "x", "y", "z")


@given(
    wanted=st.lists(st.sampled_from(["", *_CAPTURES, "gone"]), min_size=1, max_size=60),
    rooms=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_tasks_run_where_they_are_to_and_the_others_here_first_as_there_is_room(
    wanted: list[str], rooms: list[int]
) -> None:
    captures = Captures("here", dict(zip(_CAPTURES, rooms, strict=False)))
    places = runs_at(wanted, captures)
    known = captures.rooms.keys()
    assert all(at == asked for at, asked in zip(places, wanted, strict=True) if asked in known)
    free = [at for at, asked in zip(places, wanted, strict=True) if asked not in known]
    room = {c: max(0, n - wanted.count(c)) for c, n in captures.rooms.items()}
    assert all(free.count(c) <= room[c] for c in known - {"here"})
    if len(free) <= room["here"]:
        assert set(free) <= {"here"}
    elif len(free) <= sum(room.values()):
        assert free.count("here") == room["here"]


def _plan(feed: str = "f") -> FeedPlan:
    return FeedPlan(
        FeedId("tests", feed, 1), 1, "/logs/u", 1, "blackhole://", {}, 4, "/run", Layout({})
    )


def descriptors(count: int) -> list[Descriptor]:
    one = Descriptor(_plan(), Position(1), Position(2), ())
    return [replace(one, destinations=(("t", n),)) for n in range(count)]


def _access(folder: Path) -> LogAccess:
    return LogAccess("here", 1, str(folder.parent), "log", "token")


def test_each_answer_comes_to_its_task_and_only_lenders_read_over_the_network() -> None:
    own, b, c = Workers("a", 2), Workers("b", 1), Workers("c", 3)
    jobs = BorrowedJobs(own, "a", lambda: [b, c], _access, StillClock())
    assert jobs.parallelism == 6
    acks = jobs.run(descriptors(5), "window", 60.0, "")
    assert [ack.rows for ack in acks] == list(range(5))
    assert [len(w.given[0]) for w in (own, b, c)] == [2, 1, 2]
    assert all(d.plan.access is None for d in own.given[0])
    assert all(d.plan.access == _access(Path("/logs/u")) for d in b.given[0] + c.given[0])
    # What our own workers run at once goes nowhere else.
    assert len(jobs.run(descriptors(2), "window", 60.0, "")) == 2
    assert len(own.given) == 2
    assert len(b.given) == len(c.given) == 1


def test_a_task_that_is_to_run_elsewhere_does_so_however_little_there_is() -> None:
    own, b = Workers("a", 4), Workers("b", 1)
    lenders = [b]
    jobs = BorrowedJobs(own, "a", lambda: lenders, _access, StillClock())
    assert jobs.captures == Captures("a", {"a": 4, "b": 1})
    one, two, three = descriptors(3)
    moved = [replace(one, capture="b"), two, replace(three, capture="b")]
    assert [ack.rows for ack in jobs.run(moved, "window", 60.0, "")] == [0, 1, 2]
    assert [ack.rows for ack in jobs.run(moved[2:], "window", 60.0, "")] == [2]
    assert [len(given) for given in own.given] == [1]
    assert [len(given) for given in b.given] == [2, 1]
    # It takes no tasks any more: they are done here.
    lenders.clear()
    assert [ack.rows for ack in jobs.run(moved, "window", 60.0, "")] == [0, 1, 2]
    assert [len(given) for given in own.given] == [1, 3]


def test_a_window_has_failed_once_nobody_works_on_it_any_more() -> None:
    """Else a recovery would read ledgers that are still written."""
    ended = threading.Event()

    def lost() -> None:
        raise LenderLost("gone", object="capture b")

    own, b = Workers("a", 1, does=lambda: ended.wait(60) and None), Workers("b", 1, does=lost)
    jobs = BorrowedJobs(own, "a", lambda: [b], _access, StillClock())
    raised: list[BaseException] = []

    def window() -> None:
        try:
            jobs.run(descriptors(2), "window", 60.0, "")
        except LenderLost as error:
            raised.append(error)

    running = threading.Thread(target=window)
    running.start()
    until(lambda: own.given and b.given, "both were asked")
    assert not raised
    ended.set()
    running.join(60)
    assert raised


@pytest.mark.parametrize("how", ["lost", "cannot reach the sink"])
def test_who_fails_is_left_alone_longer_each_time(how: str) -> None:
    def lost() -> None:
        raise LenderLost("gone", object="capture b")

    b = Workers("b", 1)
    if how == "lost":
        b.does = lost
    else:
        b.error = TransientError("no route to host", object="sink")
    clock = StillClock()
    jobs = BorrowedJobs(Workers("a", 1), "a", lambda: [b], _access, clock)

    def window() -> None:
        try:
            jobs.run(descriptors(2), "window", 60.0, "")
        except LenderLost:
            assert how == "lost"

    waits = []
    for _ in range(3):
        window()
        assert jobs.parallelism == 1
        begun = clock.ms
        while jobs.parallelism == 1:
            clock.ms += 1000
        waits.append((clock.ms - begun) // 1000)
    assert waits == [5, 10, 20]
    b.does, b.error = (lambda: None), None
    window()
    assert jobs.parallelism == 2
    b.error = TransientError("no route to host", object="sink")
    window()
    clock.ms += 5000
    assert jobs.parallelism == 2


def test_a_row_that_the_sink_refuses_is_no_fault_of_the_lender() -> None:
    b = Workers("b", 1, error=DefiniteError("too long", object="s.t"))
    jobs = BorrowedJobs(Workers("a", 1), "a", lambda: [b], _access, StillClock())
    assert jobs.run(descriptors(2), "window", 60.0, "")[1].error is not None
    assert jobs.parallelism == 2


def test_workers_keep_what_they_do_for_others_until_that_has_ended() -> None:
    clock = StillClock()
    own = Workers("a", 1)
    workers = LentWorkers(own, clock)
    workers.lend(descriptors(1), "window", 60.0)
    clock.ms += 59_000
    workers.tend(["mine"])
    clock.ms += 2_000
    workers.tend(["mine"])
    assert own.tended == [{"mine", "f"}, {"mine"}]
