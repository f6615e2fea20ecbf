"""What a cluster says of a topic that was just made: not all brokers know it at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sink.kafka import topics
from sink.kafka.errors import KafkaUnavailable
from sink.kafka.settings import KafkaSettings

SETTINGS = KafkaSettings.parse("kafka://127.0.0.1:1/t?protocol=canal-json&partition-num=3")
_UNKNOWN = {"name": "t", "error_code": 3}
_EMPTY = {"name": "t", "error_code": 0, "partitions": []}
_WHOLE = {"name": "t", "error_code": 0, "partitions": [{"replica_nodes": [1]}] * 3}


class Cluster:
    """Answers of brokers, one after the other; the last one stays."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.created: list[str] = []

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        """The next answer."""
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]

    def create_topics(self, wanted: dict[str, Any], *, validate_only: bool) -> None:
        """Taken."""
        self.created += wanted

    def wait_for_topics(self, names: list[str]) -> None:
        """The broker that is asked knows them."""


@pytest.mark.parametrize("late", [_UNKNOWN, _EMPTY], ids=["unknown", "without partitions"])
def test_a_broker_that_does_not_know_a_new_topic_yet_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, late: dict[str, Any]
) -> None:
    cluster = Cluster(_UNKNOWN, late, _WHOLE)

    @contextmanager
    def admin(settings: KafkaSettings) -> Iterator[Cluster]:
        yield cluster

    monkeypatch.setattr(topics, "open_admin", admin)
    monkeypatch.setattr(topics, "topic_config", lambda admin, name: {})
    known = topics.Topics(SETTINGS)
    with pytest.raises(KafkaUnavailable, match="does not know its partitions yet"):
        known.ensure(["t"])
    assert known.ensure(["t"])["t"].partitions == 3
    assert cluster.created == ["t"]
