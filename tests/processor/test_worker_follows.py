"""A worker takes up the plan of a later recovery without beginning anew."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext

from cdc.base.ids import FeedId
from cdc.base.position import Position
from processor.deliveries import Deliveries
from processor.delivery import FeedDelivery
from processor.slot import NoSlotFree, Slot
from processor.spark import task
from processor.task_messages import Ack, Descriptor, FeedPlan
from sink.contract import Layout
from tests.changelog.logs import open_log


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log, for a worker that has nothing yet, in a task's first attempt."""
    monkeypatch.setattr(task, "deliveries", cache(Deliveries))
    context: Any = TaskContext()
    context._attemptNumber = 0
    monkeypatch.setattr(TaskContext, "_taskContext", context)
    folder = tmp_path / "log"
    open_log(folder).close()
    return folder


def test_a_table_that_comes_makes_a_worker_read_and_freeze_nothing_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[FeedPlan] = []
    begun: list[FeedDelivery] = []
    delivered: list[tuple[FeedDelivery, FeedPlan]] = []
    begin = FeedDelivery.__init__

    def beginning(self: FeedDelivery, plan: FeedPlan) -> None:
        begun.append(self)
        begin(self, plan)

    def deliver(self: FeedDelivery, descriptor: Descriptor) -> Ack:
        delivered.append((self, self.plan))
        return Ack(descriptor.destinations)

    monkeypatch.setattr(FeedDelivery, "__init__", beginning)
    monkeypatch.setattr(FeedDelivery, "deliver", deliver)
    monkeypatch.setattr("processor.deliveries.gc.freeze", lambda: frozen.append(plan))
    uri = "kafka://127.0.0.1:1/t?protocol=canal-json"
    run = str(tmp_path / "run")
    plan = FeedPlan(FeedId("i", "f", 1), 1, str(folder), 1, uri, {}, 1, run, Layout({"t": 1}))

    def go(plan: FeedPlan) -> None:
        (ack,) = task.run(iter([Descriptor(plan, Position(1), Position(2), (("t", 0),))]))
        assert ack.error is None

    for epoch in range(1, 40):
        plan = replace(plan, epoch=epoch, layout=Layout({"t": epoch}))
        go(plan)
        go(plan)
    assert len(begun) == 1
    assert len(frozen) == 1
    assert {id(one) for one, _ in delivered} == {id(begun[0])}
    assert [p.layout.counts["t"] for _, p in delivered[::2]] == list(range(1, 40))
    # Another configuration is read and judged anew: so is another incarnation, or another log.
    for other in (
        replace(plan, config={"force_replicate": True}),
        replace(plan, start_ts=2, config={"force_replicate": True}),
        replace(plan, feed=FeedId("i", "f", 2)),
        replace(plan, log="made anew in the same folder"),
    ):
        before = len(begun)
        go(other)
        assert len(begun) == before + 1
        assert begun[-1].plan == other


def test_windows_of_several_changefeeds_wait_for_their_sinks_at_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(4)
    frozen = []

    def deliver(self: FeedDelivery, descriptor: Descriptor) -> Ack:
        # None goes on before four of them are here.
        together.wait(30)
        return Ack(descriptor.destinations, error={"message": self.plan.feed.name})

    monkeypatch.setattr(FeedDelivery, "deliver", deliver)
    monkeypatch.setattr("processor.deliveries.gc.freeze", lambda: frozen.append(1))
    plans = [
        FeedPlan(
            FeedId("i", f"f{n}", 1), 1, str(tmp_path / "none" if n == 2 else folder), 1,
            "blackhole://", {}, 1, str(tmp_path / f"f{n}"), Layout({"t": 1}),
        )
        for n in range(9)
    ]  # fmt: skip
    asked = [Descriptor(p, Position(1), Position(2), (("t", n),)) for n, p in enumerate(plans)]
    acks = list(task.run(iter(asked)))
    assert [ack.destinations for ack in acks] == [one.destinations for one in asked]
    messages = [(ack.error or {})["message"] for ack in acks]
    # One whose log is not there fails alone.
    assert "f2" not in messages
    assert messages[:2] + messages[3:] == [f"f{n}" for n in range(9) if n != 2]
    assert acks[2].error["code"].startswith("TG:ErrLog")  # type: ignore[index]
    assert frozen == [1]


def test_a_worker_gives_back_what_it_has_of_changefeeds_that_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Deliveries()
    monkeypatch.setattr(task, "deliveries", lambda: kept)
    folder = tmp_path / "log"
    open_log(folder).close()
    for name in ("kept", "removed"):
        plan = FeedPlan(
            FeedId("i", name, 1), 1, str(folder), 1, "blackhole://", {}, 1,
            str(tmp_path / name), Layout({"t": 1}),
        )  # fmt: skip
        kept.prepared(Descriptor(plan, Position(1), Position(2), (("t", 0),)))
        kept._known[name].open()
    gone = weakref.ref(kept._known["removed"])
    # What lives in a worker is frozen: only the last reference frees it.
    gc.disable()
    try:
        assert list(task.tend(iter([frozenset({"kept"})]))) == [1]
        assert gone() is None
    finally:
        gc.enable()
    assert list(kept._known) == ["kept"]
    freed = Slot.claim(tmp_path / "removed", 1)
    freed.release()
    with pytest.raises(NoSlotFree):
        Slot.claim(tmp_path / "kept", 1)
    kept._known["kept"].discard()


def test_a_window_beside_one_of_the_same_changefeed_has_a_sink_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was given up may still be under way when the changefeed has begun anew."""
    at_work: list[FeedDelivery] = []
    first, goes_on = threading.Event(), threading.Event()

    def deliver(self: FeedDelivery, descriptor: Descriptor) -> Ack:
        assert self not in at_work
        at_work.append(self)
        if descriptor.plan.epoch == 1:
            first.set()
            assert goes_on.wait(30)
        at_work.remove(self)
        return Ack(descriptor.destinations)

    monkeypatch.setattr(FeedDelivery, "deliver", deliver)
    ended: list[int] = []
    monkeypatch.setattr(FeedDelivery, "end", lambda self: ended.append(self.plan.epoch))
    folder = tmp_path / "log"
    open_log(folder).close()
    plan = FeedPlan(
        FeedId("i", "f", 1), 1, str(folder), 1, "blackhole://", {}, 1, str(tmp_path / "f"),
        Layout({"t": 1}),
    )  # fmt: skip
    kept, windows = Deliveries(), []
    for epoch in (1, 2):
        window = Descriptor(replace(plan, epoch=epoch), Position(1), Position(2), (("t", 0),))
        windows.append(threading.Thread(target=kept.deliver, args=(window,)))
    windows[0].start()
    assert first.wait(30)
    windows[1].start()
    windows[1].join(30)
    assert ended == []
    goes_on.set()
    windows[0].join(30)
    assert ended == [1], "what is behind goes"
    assert kept._known["f"].plan.epoch == 2


def test_a_changefeed_that_is_begun_again_among_others_freezes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time would leave more that is never freed, however many windows are under way."""
    frozen = []
    monkeypatch.setattr("processor.deliveries.gc.freeze", lambda: frozen.append(1))
    monkeypatch.setattr("processor.deliveries.gc.collect", lambda: None)
    within: list[Descriptor] = []

    def end(self: FeedDelivery) -> None:
        # A window of another changefeed begins and ends while this one is closed.
        kept.deliver(within.pop())

    monkeypatch.setattr(FeedDelivery, "end", end)
    monkeypatch.setattr(FeedDelivery, "deliver", lambda self, d: Ack(d.destinations))
    folder = tmp_path / "log"
    open_log(folder).close()
    kept = Deliveries()

    def window(number: int, **changes: Any) -> Descriptor:
        plan = FeedPlan(
            FeedId("i", f"f{number}", 1), 1, str(folder), 1, "blackhole://", {}, 1,
            str(tmp_path / f"f{number}"), Layout({"t": 1}),
        )  # fmt: skip
        return Descriptor(replace(plan, **changes), Position(1), Position(2), (("t", 0),))

    for number in range(12):
        kept.deliver(window(number))
    before = len(frozen)
    assert before > 1
    for log in ("anew", "once more"):
        within.append(window(2))
        kept.deliver(window(1, log=log))
        assert not within
    assert len(frozen) == before
