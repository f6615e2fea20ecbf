"""What must hold of a topic whose rows are numbered: nothing lost, nothing twice, in order."""

from __future__ import annotations

from collections import Counter

from tests.e2e import topics
from tests.e2e.conftest import Way
from tests.e2e.topics import Message


def exactly(way: Way, wanted: int, topic: str = "") -> None:
    """Each id in [0, wanted) has arrived once, in rising order within its partition."""
    exactly_in(way.messages(topic), wanted)


def exactly_in(found: list[Message], wanted: int) -> None:
    """The same of messages that have been read."""
    counts = Counter(topics.ids(found))
    lost = [i for i in range(wanted) if not counts[i]]
    assert not lost, f"{len(lost)} lost, the first {lost[:5]}"
    assert sum(counts.values()) == wanted, f"{sum(counts.values()) - wanted} duplicated"
    by: dict[int, list[int]] = {}
    for m in found:
        by.setdefault(m.partition, []).extend(topics.ids([m]))
    assert all(ids == sorted(ids) for ids in by.values()), "order within a partition"
