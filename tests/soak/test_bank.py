"""The bank's checker: it must see a torn state, and a ledger that lags behind its rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from cdc.base.position import Position
from sink.mysql import ledger
from tests.servers import Database
from tests.soak import bank
from tests.soak.bank import ACCOUNTS, EACH, Checker, State

_FEED = "bank-of-the-checker"
_MADE = (
    "CREATE DATABASE IF NOT EXISTS tidegate",
    # As the sink makes it: other tests on this server find it.
    ledger._CREATE,
)


@pytest.fixture
def target(mariadb: Database) -> Iterator[Database]:
    """A server with an open bank and a ledger row."""
    mariadb.execute(*_MADE)
    bank.make_tables(mariadb.connect)
    values = ",".join(f"({n}, {EACH})" for n in range(ACCOUNTS))
    mariadb.execute(
        f"INSERT INTO {bank.SCHEMA}.accounts VALUES {values}",
        "INSERT INTO tidegate.ledger (installation, changefeed, incarnation, bucket, epoch, ts,"
        f" `row`) VALUES ('tests', '{_FEED}', 1, 0, 1, 100, 5)",
    )
    yield mariadb
    mariadb.execute(
        f"DROP DATABASE {bank.SCHEMA}", f"DELETE FROM tidegate.ledger WHERE changefeed = '{_FEED}'"
    )


def _seen(target: Database, checker: Checker) -> None:
    with target.connect() as connection, connection.cursor() as cursor:
        checker.see(bank.read_state(cursor, _FEED)[0])


def _advance(cursor: Any, ts: int) -> None:
    cursor.execute(f"UPDATE tidegate.ledger SET ts = {ts} WHERE changefeed = '{_FEED}'")


def test_a_reader_sees_a_transfer_that_is_there_in_part(target: Database) -> None:
    """What two buckets make of it when each commits its own part."""
    checker = Checker()
    chosen = random.Random(1)
    with target.connect(database=bank.SCHEMA) as connection, connection.cursor() as cursor:
        bank.transfer(cursor, 1, chosen)
        _advance(cursor, 101)
        _seen(target, checker)
        assert checker.faults == []
        cursor.execute("BEGIN")
        cursor.execute("UPDATE accounts SET balance = balance - 7 WHERE id = 3")
        _seen(target, checker)
        assert checker.faults == [], "not committed, so not to be seen"
        cursor.execute("COMMIT")
        _seen(target, checker)
        assert [f.split(":")[0] for f in checker.faults] == [
            f"the sum is {ACCOUNTS * EACH - 7}, not {ACCOUNTS * EACH}"
        ]
        cursor.execute("UPDATE accounts SET balance = balance + 7 WHERE id = 9")
        _seen(target, checker)
    assert len(checker.faults) == 1
    assert checker.states == 4


def test_a_reader_sees_rows_that_are_there_before_their_position(target: Database) -> None:
    checker = Checker()
    with target.connect(database=bank.SCHEMA) as connection, connection.cursor() as cursor:
        bank.transfer(cursor, 1, random.Random(1))
        _advance(cursor, 101)
        _seen(target, checker)
        bank.transfer(cursor, 2, random.Random(1))
        _seen(target, checker)
        _advance(cursor, 102)
        _seen(target, checker)
    assert [f.split(":")[0] for f in checker.faults] == ["the same position showed transfer 1"]


_GOOD = State(ACCOUNTS, ACCOUNTS * EACH, 1, 3, 3, Position(10))


@pytest.mark.parametrize(
    ("then", "fault"),
    [
        (State(ACCOUNTS, ACCOUNTS * EACH, 1, 4, 4, Position(11)), ""),
        (State(ACCOUNTS - 1, ACCOUNTS * EACH - EACH, 1, 4, 4, Position(11)), "accounts are open"),
        (State(ACCOUNTS, ACCOUNTS * EACH, 1, 5, 4, Position(11)), "transfers are missing"),
        (State(ACCOUNTS, ACCOUNTS * EACH, 1, 2, 2, Position(11)), "it went back"),
        (State(ACCOUNTS, ACCOUNTS * EACH, 1, 4, 4, Position(9)), "the ledger went back"),
        (State(ACCOUNTS, ACCOUNTS * EACH, 1, 4, 4, None), "the ledger has forgotten"),
        (State(ACCOUNTS, ACCOUNTS * EACH, 1, 4, 4, Position(10)), "the same position showed"),
    ],
)
def test_states_that_cannot_follow_each_other(then: State, fault: str) -> None:
    checker = Checker()
    checker.see(State())
    checker.see(_GOOD)
    assert checker.faults == []
    checker.see(then)
    assert len(checker.faults) == (1 if fault else 0)
    assert all(fault in f for f in checker.faults)
