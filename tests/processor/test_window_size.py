"""The size of windows is a value; each rule has a case that breaks with it."""

from __future__ import annotations

import pytest

from cdc.base.errors import TidegateError
from processor.jobs import JobTimedOut
from processor.window_size import LEAST, WindowSize, may_be_too_much
from sink.kafka.errors import KafkaTransactionTimedOut, KafkaUnavailable
from sink.mysql.errors import MysqlTransactionTooLarge, TargetDuplicateKey, map_error

MIB = 1 << 20


def test_a_window_that_was_too_much_is_halved_and_grows_again() -> None:
    size = WindowSize(64 * MIB, 64 * MIB).failed(64 * MIB)
    assert size.now == 32 * MIB
    # What was tried counts, not what would have been allowed.
    size = size.failed(6 * MIB)
    assert size.now == 3 * MIB
    for _ in range(4):
        assert size.now == 3 * MIB
        size = size.delivered(MIB)
        size = size.delivered(3 * MIB)
    assert size.now == 6 * MIB
    for _ in range(100):
        size = size.delivered(size.now)
    assert size.now == 64 * MIB


def test_it_never_becomes_nothing() -> None:
    size = WindowSize(MIB, MIB)
    for _ in range(40):
        size = size.failed(size.now)
    assert size.now == LEAST


@pytest.mark.parametrize(
    ("error", "seconds", "expected"),
    [
        (MysqlTransactionTooLarge("x"), 0.1, True),
        (KafkaTransactionTimedOut("x"), 0.1, True),
        (JobTimedOut("x"), 600.0, True),
        # A broker that is slow looks as if it were away; one that refuses us does so at once.
        (KafkaUnavailable("x"), 30.0, True),
        (KafkaUnavailable("x"), 0.5, False),
        (TargetDuplicateKey("x"), 30.0, False),
    ],
)
def test_only_what_less_may_mend_makes_windows_smaller(
    error: TidegateError, seconds: float, expected: bool
) -> None:
    assert may_be_too_much(error, seconds, 120.0) is expected


@pytest.mark.parametrize(("seconds", "expected"), [(1.5, False), (2.5, True)])
def test_a_sink_that_is_impatient_is_slow_sooner(seconds: float, expected: bool) -> None:
    assert may_be_too_much(KafkaUnavailable("x"), seconds, 2.0) is expected


def test_small_windows_bound_what_is_on_its_way() -> None:
    whole = WindowSize(MIB, MIB)
    assert whole.at_once(2) is None
    assert whole.failed(MIB).at_once(2) == MIB // 4
    assert whole.failed(LEAST).at_once(2) == LEAST


@pytest.mark.parametrize(
    ("number", "code"),
    [(1197, "TG:ErrMysqlTransactionTooLarge"), (3100, "TG:ErrMysqlCommitRefused")],
)
def test_a_target_that_takes_no_more_is_not_called_read_only(number: int, code: str) -> None:
    import pymysql

    found = map_error(pymysql.err.OperationalError(number, "text"), "target")
    assert (found.code, found.kind) == (code, "transient")
