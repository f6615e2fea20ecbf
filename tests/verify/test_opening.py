"""Which changefeeds cannot be verified."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.coord.feed_config import FeedConfig
from cdc.verify.opening import VerifyNotSupported, _work

KAFKA = "kafka://127.0.0.1:9/t?protocol=canal-json"
MYSQL = "mysql://root@127.0.0.1:9/"


@pytest.mark.parametrize(
    ("uri", "sink"),
    [
        (KAFKA, {"column_selectors": [{"matcher": ["a.*"], "columns": ["*", "!b"]}]}),
        (MYSQL, {"dispatchers": [{"matcher": ["a.*"], "target_schema": "b"}]}),
    ],
)
def test_what_does_not_arrive_as_it_is_upstream(uri: str, sink: dict[str, Any]) -> None:
    with pytest.raises(VerifyNotSupported) as e:
        _work(uri, FeedConfig(sink=sink))
    assert e.value.hint
    _work(uri, FeedConfig())


def test_messages_of_a_protocol_that_is_not_read() -> None:
    with pytest.raises(VerifyNotSupported, match="debezium") as e:
        _work(KAFKA.replace("canal-json", "debezium"), FeedConfig())
    assert e.value.hint
