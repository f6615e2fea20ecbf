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
from processor.lending import BorrowedJobs, LenderLost, LentWorkers, shares
from processor.task_messages import Descriptor, FeedPlan
from sink.contract import Layout
from tests.changelog.logs import StillClock
from tests.processor.workers import Workers
from tests.waiting import until

_COUNTS = st.integers(0, 9)


@given(count=st.integers(1, 60), own=st.integers(1, 9), lent=st.lists(_COUNTS, max_size=5))
def test_all_are_dealt_out_here_first_and_to_nobody_more_than_it_runs(
    count: int, own: int, lent: list[int]
) -> None:
    here, *there = shares(count, own, lent)
    assert here + sum(there) == count
    assert all(n <= room for n, room in zip(there, lent, strict=True))
    if count <= own:
        assert not any(there)
    elif count <= own + sum(lent):
        assert here == own


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
    jobs = BorrowedJobs(own, lambda: [b, c], _access, StillClock())
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


def test_a_window_has_failed_once_nobody_works_on_it_any_more() -> None:
    """Else a recovery would read ledgers that are still written."""
    ended = threading.Event()

    def lost() -> None:
        raise LenderLost("gone", object="capture b")

    own, b = Workers("a", 1, does=lambda: ended.wait(60) and None), Workers("b", 1, does=lost)
    jobs = BorrowedJobs(own, lambda: [b], _access, StillClock())
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
    jobs = BorrowedJobs(Workers("a", 1), lambda: [b], _access, clock)

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
    jobs = BorrowedJobs(Workers("a", 1), lambda: [b], _access, StillClock())
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
