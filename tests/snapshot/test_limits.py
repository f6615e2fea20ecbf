"""Reading is held back by what the operator allows."""

from __future__ import annotations

from cdc.snapshot.limits import RowRate


def test_rows_take_their_time() -> None:
    rate = RowRate(100).read(50, 10.0)
    assert rate.wait_s(10.0) == 0.5
    assert rate.wait_s(10.4) < 0.11
    assert rate.wait_s(11.0) == 0.0
    # What was read late has its time from then on, and what comes early waits for both.
    assert rate.read(100, 20.0).wait_s(20.0) == 1.0
    assert rate.read(100, 10.0).wait_s(10.0) == 1.5


def test_no_limit() -> None:
    assert RowRate(0).read(1 << 40, 5.0).wait_s(5.0) == 0.0
