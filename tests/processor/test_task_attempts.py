"""A task that Spark runs again delivers nothing: whether its first attempt did is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import TaskContext

from cdc.base.ids import FeedId
from cdc.base.position import Position
from processor.delivery import FeedDelivery
from processor.failures import failure
from processor.spark.task import TaskRepeated, run
from processor.task_messages import Ack, Descriptor, FeedPlan
from sink.contract import Layout


@pytest.mark.parametrize(("attempt", "delivered"), [(0, 1), (1, 0), (2, 0)])
def test_only_the_first_attempt_of_a_task_delivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: int, delivered: int
) -> None:
    calls = []

    def deliver(self: FeedDelivery, descriptor: Descriptor) -> Ack:
        calls.append(descriptor)
        return Ack(descriptor.destinations)

    monkeypatch.setattr(FeedDelivery, "__init__", lambda self, plan: setattr(self, "plan", plan))
    monkeypatch.setattr(FeedDelivery, "deliver", deliver)
    context = TaskContext()
    context._attemptNumber = attempt
    monkeypatch.setattr(TaskContext, "_taskContext", context)
    layout = Layout({"t": 1})
    plan = FeedPlan(
        FeedId("i", "f", 1), 1, str(tmp_path), 1, "kafka://x", {}, 1, str(tmp_path), layout
    )
    (ack,) = run(iter([Descriptor(plan, Position(1), Position(2), (("t", 0),))]))
    assert len(calls) == delivered
    found = failure([ack], kept=False)
    assert (found is None) == (attempt == 0)
    if found is not None:
        assert isinstance(found[0], TaskRepeated)
