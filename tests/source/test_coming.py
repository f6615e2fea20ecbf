"""A log that comes nearer is waited for longer than one that does not, and neither for ever."""

from __future__ import annotations

from cdc.source.coming import Coming
from cdc.source.settings import SourceSettings
from tests.changelog.logs import StillClock

SETTINGS = SourceSettings(silence_s=5.0)


def test_one_that_comes_no_further_is_given_up_as_a_silent_server_is() -> None:
    clock = StillClock()
    coming = Coming(10, SETTINGS, clock)
    clock.ms += 5_000
    assert not coming.given_up(10)
    clock.ms += 1
    assert coming.given_up(10)


def test_one_that_comes_nearer_is_waited_for_but_not_for_ever() -> None:
    clock = StillClock()
    coming = Coming(10, SETTINGS, clock)
    for resolved_ts in range(11, 19):
        clock.ms += 4_999
        assert not coming.given_up(resolved_ts)
    clock.ms += 4_999
    assert coming.given_up(19)
