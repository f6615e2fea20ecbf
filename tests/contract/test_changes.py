"""What every sink with a ledger promises of schema changes: `SchemaChanger` of sink.schema_change.

The changes are left out, which is recorded as their execution is, and needs no table.
"""

from __future__ import annotations

import pytest

from sink.errors import FencedEpoch
from sink.schema_change import Recorded
from tests.contract.targets import SLOTS, Target
from tests.sink_kafka.changes import history

pytestmark = pytest.mark.real

EPOCH = 5 << 16
FIRST, SECOND = history("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")


def test_what_is_recorded_is_found_by_the_next_owner(target: Target) -> None:
    feed = target.feed()
    with target.changer(feed, EPOCH) as changer:
        assert changer.take_over() == {}
        changer.skip(FIRST)
        changer.skip(SECOND)
    with target.changer(feed, EPOCH + (1 << 16)) as changer:
        wanted = {FIRST.ts: Recorded.SKIPPED, SECOND.ts: Recorded.SKIPPED}
        assert changer.take_over() == wanted
        changer.skip(FIRST)
        changer.forget_below(FIRST.ts)
        assert changer.take_over() == {SECOND.ts: Recorded.SKIPPED}


def test_a_newer_owner_fences_the_one_before_it(target: Target) -> None:
    feed = target.feed()
    with target.changer(feed, EPOCH) as older, target.changer(feed, EPOCH + (1 << 16)) as newer:
        older.take_over()
        older.skip(FIRST)
        assert newer.take_over() == {FIRST.ts: Recorded.SKIPPED}
        with pytest.raises(FencedEpoch):
            older.skip(SECOND)
        with pytest.raises(FencedEpoch):
            older.take_over()
        assert newer.take_over() == {FIRST.ts: Recorded.SKIPPED}


def test_recoveries_of_rows_leave_the_owner_alone(target: Target) -> None:
    """They count within the owner's epoch."""
    feed = target.feed()
    with target.changer(feed, EPOCH) as changer:
        changer.take_over()
        target.recover(feed, EPOCH + 1)
        changer.skip(FIRST)
        target.recover(feed, EPOCH + 2)
        assert changer.take_over() == {FIRST.ts: Recorded.SKIPPED}


def test_they_belong_to_one_installation_and_incarnation(target: Target) -> None:
    ours, theirs = target.feed(), target.feed(installation="others")
    with target.changer(ours, EPOCH) as mine, target.changer(theirs, EPOCH + (4 << 16)) as other:
        mine.take_over()
        mine.skip(FIRST)
        assert other.take_over() == {}
        target.driver.forget(theirs, SLOTS)
        assert mine.take_over() == {FIRST.ts: Recorded.SKIPPED}
        with target.changer(target.feed(incarnation=2), 1 << 16) as newer:
            assert newer.take_over() == {}
            with pytest.raises(FencedEpoch):
                mine.skip(SECOND)
            with pytest.raises(FencedEpoch):
                mine.take_over()
            assert newer.take_over() == {}
