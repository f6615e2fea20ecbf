"""The negative control of fencing: without it a zombie's rows come twice; with it they cannot."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from cdc.base.errors import FencedError
from cdc.base.position import Position
from sink.kafka import recovery
from sink.kafka.deliverer import KafkaDeliverer
from tests.sink_kafka.conftest import Lab

pytestmark = pytest.mark.real

_ROWS = [b"%d" % i for i in range(20)]
_SLOTS = 2


def _deliver(lab: Lab, epoch: int, slot: int) -> KafkaDeliverer:
    """A deliverer that has sent all rows, and has not committed."""
    deliverer = KafkaDeliverer(lab.settings(), lab.feed, epoch, slot)
    deliverer.begin()
    for row in _ROWS:
        deliverer.send_small(lab.topic, 0, row, 1)
    deliverer._pipeline.drain(10)
    return deliverer


def _take_over_from_a_zombie(lab: Lab) -> Counter[bytes | None]:
    """A worker hangs behind its last row; another owner delivers the same; then it goes on."""
    recovery.recover(lab.settings(), lab.feed, 1, _SLOTS)
    position: dict[Any, Position] = {(lab.topic, 0): Position(1)}
    zombie = _deliver(lab, 1, 0)
    assert recovery.recover(lab.settings(), lab.feed, 2, _SLOTS) == {}
    owner = _deliver(lab, 2, 1)
    owner.commit(position)
    owner.close()
    # What came of it the consumer says.
    with suppress(FencedError):
        zombie.commit(position)
    zombie.close()
    return Counter(value for _, value in lab.consume()[0])


def test_a_zombie_adds_nothing(lab: Lab) -> None:
    assert _take_over_from_a_zombie(lab) == Counter(_ROWS)


def test_without_the_fence_a_zombies_rows_come_twice(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "fence", lambda admin, settings, ids: None)
    assert _take_over_from_a_zombie(lab) == Counter(_ROWS * 2)
