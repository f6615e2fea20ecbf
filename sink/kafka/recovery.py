"""Recovery of a Kafka sink, in the only order that is safe (ARCHITECTURE.md, decision 12).

1. write our epoch into the ledger, 2. fence every slot, 3. read the ledger's positions. A zombie
either claimed its transactional id before step 2, and is fenced by it, its transaction aborted; or
after, and then it reads our epoch before it sends anything, and stops.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kafka import errors as ke
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import InitProducerIdRequest

from cdc.base.position import Position
from sink.kafka.clients import TRANSACTION_TIMEOUT_MS, open_admin
from sink.kafka.deliverer import transactional_id
from sink.kafka.errors import FencedEpoch, KafkaStorage, KafkaUnavailable, map_error
from sink.kafka.ledger import ensure_topic, read, read_epochs, write_epoch
from sink.kafka.settings import KafkaSettings

_RETRY_S = 0.01
_MOVED = (ke.NotCoordinatorError, ke.CoordinatorNotAvailableError)


def recover(
    settings: KafkaSettings, feed: str, epoch: int, slots: int
) -> dict[tuple[str, int], Position]:
    """Take a changefeed over in ``epoch``; returns what is delivered, by (topic, partition).

    May be repeated. Every deliverer made before is fenced, also one of this epoch: so each
    recovery of a running changefeed takes a new epoch. Raises :class:`FencedEpoch` if the ledger
    has a newer one. Without ``exactly-once`` there is no ledger: returns ``{}``.
    """
    if not settings.exactly_once:
        return {}
    with open_admin(settings) as admin:
        ensure_topic(admin, settings)
        claim_epoch(admin, settings, feed, epoch)
        fence(admin, settings, [transactional_id(feed, slot) for slot in range(slots)])
        after = read(settings, feed, admin=admin)
        _check(feed, epoch, after.epoch)
        return dict(after.positions)


def claim_epoch(
    admin: Any, settings: KafkaSettings, feed: str, epoch: int, *, bits: int = 0
) -> None:
    """Write our epoch into the ledger, unless it is there; FencedEpoch if a newer one is.

    Epochs that differ in their last ``bits`` only are taken for the same.
    """
    before = read_epochs(settings, feed, admin=admin)
    if before.epoch >> bits > epoch >> bits:
        _check(feed, epoch, before.epoch)
    if before.epoch < epoch:
        write_epoch(settings, feed, epoch, before.epochs)


def _check(feed: str, epoch: int, found: int) -> None:
    if found > epoch:
        raise FencedEpoch(
            f"our epoch is {epoch}, the ledger's is {found}",
            object=f"changefeed {feed}",
            hint="another server has taken over this changefeed; nothing to do here",
        )


def fence(admin: Any, settings: KafkaSettings, ids: Iterable[str]) -> None:
    """Take over transactional ids: their producers are fenced, their open transactions aborted.

    Returns when no transaction of theirs is open any more.
    """
    deadline = time.monotonic() + settings.delivery_timeout_s
    admin._manager.run(_fence_all, admin, tuple(ids), deadline)


async def _fence_all(admin: Any, ids: tuple[str, ...], deadline: float) -> None:
    waiting = ids
    while waiting:
        errors = await _fence_once(admin, waiting)
        for own, error in errors.items():
            if not issubclass(error, ke.RetriableError):
                raise map_error(error(), object=f"transactional id {own}")
            if time.monotonic() > deadline and error is ke.ConcurrentTransactionsError:
                raise KafkaStorage(
                    "its last transaction does not end: a partition takes no marker of it",
                    object=f"transactional id {own}",
                    hint="look at the replicas and disks of the topics and of tidegate-ledger",
                )
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"fencing did not end: {error.__name__}",
                    object=f"transactional id {own}",
                    hint="check that the brokers run and can be reached",
                )
        waiting = tuple(errors)
        if waiting:
            await admin._net.sleep(_RETRY_S)


async def _fence_once(admin: Any, ids: tuple[str, ...]) -> dict[str, type[ke.KafkaError]]:
    """One attempt for all ids at once; returns those that failed."""
    try:
        nodes = await admin._find_coordinator_ids(list(ids), CoordinatorType.TRANSACTION)
    except ke.RetriableError as e:
        # Right after the broker's start its coordinator still loads.
        return dict.fromkeys(ids, type(e))
    manager = admin._manager
    sent = {own: manager.send(_init_request(own), node_id=nodes[own]) for own in ids}
    errors: dict[str, type[ke.KafkaError]] = {}
    for own, future in sent.items():
        try:
            error = ke.for_code((await future).error_code)
        except ke.RetriableError as e:
            error = type(e)
        if error is not ke.NoError:
            errors[own] = error
        if error in _MOVED:
            manager.cluster._coordinators.clear()
    return errors


def _init_request(own: str) -> Any:
    # CONCURRENT_TRANSACTIONS is answered until the transaction of the fenced producer is aborted.
    return InitProducerIdRequest(
        transactional_id=own,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
        min_version=0,
    )
