"""What every sink with a ledger promises of rows: `SinkDriver` and `Deliverer` of sink.contract.

Windows have no rows here: what a sink makes of rows is its own affair, and tested with it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.position import START, Position, Stand
from sink.contract import RECOVERY_BITS, Deliverer, Destination
from sink.errors import FencedEpoch
from tests.contract.targets import Target, at, commit

pytestmark = pytest.mark.real

EPOCH = 5


def _refused(worker: Deliverer, positions: Mapping[Destination, Position]) -> None:
    """A window of a worker that was fenced: it may fail at any step, and must."""
    with pytest.raises(TidegateError) as raised:
        commit(worker, positions)
    assert raised.value.kind is ErrorKind.FENCED, raised.value


def test_what_is_committed_is_found_again(target: Target) -> None:
    feed = target.feed()
    found = target.recover(feed, EPOCH)
    assert found.recorded
    assert all(position == START for position in found.positions.values())
    destinations = found.layout.destinations()
    assert len(destinations) > 1 or target.sink.single_stream
    worker = target.worker(feed, EPOCH)
    first, last = destinations[0], destinations[-1]
    commit(worker, at(destinations, 100))
    commit(worker, {first: Position(200, 7)})
    # A table that waits for a schema change stands lower than all others.
    held = Stand(300, 0, {"shop.a": Position(150)})
    commit(worker, {last: held})
    wanted = at(destinations, 100) | {first: Position(200, 7)} | {last: held}
    assert dict(target.driver.delivered(feed)) == wanted
    assert list(target.driver.admit(feed)) == [feed]
    again = target.recover(feed, EPOCH + 1, Position(100), begun=True)
    assert dict(again.positions) == wanted
    assert again.layout == found.layout


def test_a_window_that_is_given_up_moves_nothing(target: Target) -> None:
    feed = target.feed()
    destinations = target.recover(feed, EPOCH).layout.destinations()
    commit(target.worker(feed, EPOCH), at(destinations, 100))
    worker = target.worker(feed, EPOCH, 1)
    worker.begin(destinations)
    worker.abort()
    assert dict(target.driver.delivered(feed)) == at(destinations, 100)


def test_a_recovery_fences_every_worker_before_it(target: Target) -> None:
    feed = target.feed()
    destinations = target.recover(feed, EPOCH).layout.destinations()
    idle, running, busy = (target.worker(feed, EPOCH, slot) for slot in range(3))
    commit(running, at(destinations, 100))
    busy.begin(destinations)
    found = target.recover(feed, EPOCH + 1, Position(100), begun=True)
    assert dict(found.positions) == at(destinations, 100)
    for worker in (idle, running):
        _refused(worker, at(destinations, 200))
    with pytest.raises(TidegateError):
        busy.commit(at(destinations, 200))
    with pytest.raises(TidegateError):
        commit(target.worker(feed, EPOCH, 3), at(destinations, 200))
    assert dict(target.driver.delivered(feed)) == at(destinations, 100)
    commit(target.worker(feed, EPOCH + 1), at(destinations, 200))
    assert dict(target.driver.delivered(feed)) == at(destinations, 200)


def test_an_older_epoch_takes_nothing_over(target: Target) -> None:
    feed = target.feed()
    destinations = target.recover(feed, EPOCH).layout.destinations()
    worker = target.worker(feed, EPOCH)
    with pytest.raises(FencedEpoch):
        target.recover(feed, EPOCH - 1)
    commit(worker, at(destinations, 100))
    assert dict(target.driver.delivered(feed)) == at(destinations, 100)


def test_a_ledger_that_is_lost_is_an_error(target: Target) -> None:
    """Else all would be delivered twice, without a word."""
    feed, owner = target.feed(), 1 << RECOVERY_BITS
    with target.changer(feed, owner) as changer:
        # The owner's part comes first, and leaves its epoch in what it has made anew.
        assert changer.take_over() == {}
        with pytest.raises(TidegateError) as raised:
            target.recover(feed, owner + 1, Position(9), begun=True)
        assert raised.value.kind is ErrorKind.DEFINITE
        assert raised.value.hint
        # One that has had no rows to deliver leaves no position, but that it has recovered.
        target.recover(feed, owner + 2)
        target.recover(feed, owner + 3, Position(9), begun=True)
    with target.changer(feed, 2 * owner) as changer:
        assert changer.take_over() == {}
        target.recover(feed, 2 * owner + 1, Position(9), begun=True)


def test_installations_with_one_name_share_nothing(target: Target) -> None:
    ours, theirs = target.feed(), target.feed(installation="others")
    destinations = target.recover(ours, EPOCH).layout.destinations()
    running = target.worker(ours, EPOCH)
    commit(running, at(destinations, 100))
    found = target.recover(theirs, EPOCH + 9)
    assert all(position == START for position in found.positions.values())
    assert set(target.driver.admit(ours)) == {ours, theirs}
    target.driver.forget(theirs, 4)
    commit(running, at(destinations, 200))
    assert dict(target.driver.delivered(ours)) == at(destinations, 200)
    assert set(target.driver.admit(theirs)) == {ours}


def test_a_new_incarnation_ends_the_old_one(target: Target) -> None:
    older, newer = target.feed(), target.feed(incarnation=2)
    destinations = target.recover(older, EPOCH).layout.destinations()
    running, idle = target.worker(older, EPOCH), target.worker(older, EPOCH, 1)
    commit(running, at(destinations, 100))
    # Whatever its epoch is.
    found = target.recover(newer, 1)
    assert all(position == START for position in found.positions.values())
    for worker in (running, idle):
        _refused(worker, at(destinations, 200))
    with pytest.raises(FencedEpoch):
        target.recover(older, EPOCH + 90)
    assert set(target.driver.admit(older)) == {newer}


def test_the_end_of_an_incarnation_leaves_its_successor(target: Target) -> None:
    """A changefeed is removed, and made anew before its ledger could be cleared."""
    newer = target.feed(incarnation=2)
    destinations = target.recover(newer, EPOCH).layout.destinations()
    commit(target.worker(newer, EPOCH), at(destinations, 100))
    target.driver.forget(target.feed(), 4)
    assert dict(target.driver.delivered(newer)) == at(destinations, 100)


def test_what_is_forgotten_is_gone_and_ended(target: Target) -> None:
    feed = target.feed()
    destinations = target.recover(feed, EPOCH).layout.destinations()
    worker = target.worker(feed, EPOCH)
    commit(worker, at(destinations, 100))
    # How many workers there were is in the ledger: the store that knew it may be gone too.
    target.driver.forget(feed, 0)
    with pytest.raises(TidegateError):
        commit(worker, at(destinations, 200))
    assert not target.driver.admit(feed)
    assert not target.driver.delivered(feed)
    target.driver.forget(feed, 0)
