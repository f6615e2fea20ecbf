"""Which changefeeds cannot be verified."""

from __future__ import annotations

import pytest

from cdc.coord.feed_config import FeedConfig
from cdc.verify.opening import VerifyNotSupported, _work

KAFKA = "kafka://127.0.0.1:9/t?protocol=canal-json"


def test_messages_of_a_protocol_that_is_not_read() -> None:
    _work(KAFKA, FeedConfig())
    with pytest.raises(VerifyNotSupported, match="maxwell") as e:
        _work(KAFKA.replace("canal-json", "maxwell"), FeedConfig())
    assert e.value.hint


def test_a_sink_that_cannot_be_read_back() -> None:
    with pytest.raises(VerifyNotSupported, match="file") as e:
        _work("file:///nowhere?protocol=canal-json", FeedConfig())
    assert e.value.hint
