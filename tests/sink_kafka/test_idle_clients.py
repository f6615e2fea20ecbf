"""Clients that are kept for a moment."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from sink.kafka import idle_clients
from sink.kafka.idle_clients import IdleClients
from tests.waiting import until


@dataclass
class Made:
    """Clients by number, in the order in which they were made, and those that were ended."""

    made: int = 0
    ended: list[int] = field(default_factory=list)
    now_s: float = 0.0

    def make(self) -> int:
        self.made += 1
        return self.made


@pytest.fixture
def clients() -> Made:
    """Return nothing yet."""
    return Made()


@pytest.fixture
def lender(clients: Made, monkeypatch: pytest.MonkeyPatch) -> IdleClients[int]:
    """Return one whose time stands still, and who ends what is old only when told to."""
    monkeypatch.setattr(IdleClients, "_sweep_later", lambda self: None)
    return IdleClients(clients.ended.append, kept_s=5.0, clock=lambda: clients.now_s)


def test_one_that_was_given_back_is_lent_again(clients: Made, lender: IdleClients[int]) -> None:
    for _ in range(3):
        with lender.lent("a", clients.make) as client:
            assert client == 1
    assert clients.ended == []


def test_each_is_lent_to_one_at_a_time(clients: Made, lender: IdleClients[int]) -> None:
    with lender.lent("a", clients.make) as first, lender.lent("a", clients.make) as second:
        assert first != second


def test_one_that_is_not_fit_any_more_is_ended(clients: Made) -> None:
    lender = IdleClients(clients.ended.append, lambda client: client > 1)
    for _ in range(2):
        with lender.lent("a", clients.make) as client:
            pass
    assert (client, clients.ended) == (2, [1])


def test_kinds_are_not_confused(clients: Made, lender: IdleClients[int]) -> None:
    with lender.lent("a", clients.make):
        pass
    with lender.lent("b", clients.make) as client:
        assert client == 2


def test_one_that_has_seen_an_error_is_ended(clients: Made, lender: IdleClients[int]) -> None:
    with pytest.raises(ValueError, match="seen"), lender.lent("a", clients.make):
        raise ValueError("seen")
    assert clients.ended == [1]
    with lender.lent("a", clients.make) as client:
        assert client == 2


def test_old_ones_are_not_lent_and_are_ended(clients: Made, lender: IdleClients[int]) -> None:
    with lender.lent("a", clients.make):
        clients.now_s = 1.0
    clients.now_s = 5.9
    lender.sweep()
    assert clients.ended == []
    clients.now_s = 6.0
    with lender.lent("a", clients.make) as client:
        assert client == 2
    lender.sweep()
    assert clients.ended == [1]
    with lender.lent("a", clients.make) as client:
        assert client == 2


def test_no_more_are_kept_than_are_needed_at_once(clients: Made, lender: IdleClients[int]) -> None:
    with ExitStack() as stack:
        for _ in range(idle_clients._MOST + 2):
            stack.enter_context(lender.lent("a", clients.make))
    assert len(clients.ended) == 2


def test_what_nobody_needs_ends_by_itself(clients: Made) -> None:
    lender: IdleClients[int] = IdleClients(clients.ended.append, kept_s=0.05)
    with lender.lent("a", clients.make):
        pass
    until(lambda: clients.ended == [1], "it is ended")


def test_a_child_has_none_of_its_parents(clients: Made) -> None:
    lender: IdleClients[int] = IdleClients(clients.ended.append)
    with lender.lent("a", clients.make):
        pass
    pid = os.fork()
    if pid == 0:
        with lender.lent("a", clients.make) as client:
            os._exit(client)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
