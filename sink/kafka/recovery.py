"""Recovery of a Kafka sink, in the only order that is safe (ARCHITECTURE.md, decision 12).

1. write our epoch into the ledger, 2. fence every slot, 3. read the ledger's positions. A zombie
either claimed its transactional id before step 2, and is fenced by it, its transaction aborted; or
after, and then it reads our epoch before it sends anything, and stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafka import errors as ke
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import InitProducerIdRequest

from cdc.base.ids import FeedId
from cdc.base.position import Position
from sink.kafka.clients import TRANSACTION_TIMEOUT_MS, open_admin
from sink.kafka.deliverer import transactional_id
from sink.kafka.errors import (
    FencedEpoch,
    KafkaLedgerLost,
    KafkaStorage,
    KafkaUnavailable,
    map_error,
)
from sink.kafka.ledger import (
    LEDGER_TOPIC,
    Ledger,
    forget,
    ledger_partition,
    partition_records,
    read,
    read_epochs,
    write_epoch,
    write_plain,
)
from sink.kafka.ledger_topic import ensure_topic
from sink.kafka.settings import KafkaSettings

_RETRY_S = 0.01
_MOVED = (ke.NotCoordinatorError, ke.CoordinatorNotAvailableError)


Choose = Callable[[Ledger], Mapping[str, int]]


def recover(
    settings: KafkaSettings,
    feed: FeedId,
    epoch: int,
    slots: int,
    choose: Choose | None = None,
    *,
    begun: bool = False,
) -> dict[tuple[str, int], Position]:
    """Take a changefeed over in ``epoch``; returns what is delivered, by (topic, partition).

    ``choose`` is given the ledger, and returns over how many partitions of each topic rows go from
    now on; what is new of that is written before it returns.

    Older incarnations are fenced too, and forgotten. May be repeated. Every deliverer made before
    is fenced, also one of this epoch: so each recovery of a running changefeed takes a new epoch.
    Raises :class:`FencedEpoch` if the ledger has a newer one, or a newer incarnation, and
    :class:`KafkaLedgerLost` if delivery has ``begun`` and the ledger does not know it. Without
    ``exactly-once`` there is no ledger: returns ``{}``.
    """
    if not settings.exactly_once:
        return {}
    with open_admin(settings) as admin:
        ensure_topic(admin, settings)
        try:
            before = claim_epoch(
                admin, settings, feed, epoch, slots=slots, begun=begun, delivers=True
            )
        except KafkaLedgerLost:
            # Whoever delivers behind this goes by another ledger: nothing of ours may commit, nor
            # stay open, which would hide all that follows from consumers.
            fence(admin, settings, [transactional_id(feed, slot) for slot in range(slots)])
            raise
        known = (feed, *older_feeds(feed, before))
        fence(admin, settings, [transactional_id(f, slot) for f in known for slot in range(slots)])
        after = read(settings, feed, admin=admin)
        _check(feed, epoch, after.newest)
        for old in older_feeds(feed, after)[-1:]:
            forget(settings, old, admin=admin)
        counts = choose(after) if choose is not None else {}
        changed = {t: count for t, count in counts.items() if after.partitions.get(t) != count}
        if changed:
            records = partition_records(feed, epoch, changed, after.counts)
            write_plain(settings, ledger_partition(feed), records)
        return dict(after.positions)


def older_feeds(feed: FeedId, ledger: Ledger) -> tuple[FeedId, ...]:
    """Incarnations before ours of which the ledger has something."""
    return tuple(replace(feed, incarnation=number) for number in sorted(ledger.older))


def claim_epoch(
    admin: Any,
    settings: KafkaSettings,
    feed: FeedId,
    epoch: int,
    *,
    bits: int = 0,
    slots: int = 0,
    begun: bool = False,
    delivers: bool = False,
) -> Ledger:
    """Write our epoch into the ledger, unless it is there; what was there before.

    FencedEpoch if a newer one is there, or a newer incarnation. Epochs that differ in their last
    ``bits`` only are taken for the same. ``slots`` is how many transactional ids may be in use.
    ``delivers``: for rows; KafkaLedgerLost if they have ``begun`` and no such epoch was ever there.
    """
    before = read_epochs(settings, feed, admin=admin)
    incarnation, newest = before.newest
    if (incarnation, newest >> bits) > (feed.incarnation, epoch >> bits):
        _check(feed, epoch, before.newest)
    if begun and not before.delivers:
        raise KafkaLedgerLost(
            "the ledger knows nothing of this changefeed, which has delivered already",
            object=f"changefeed {feed}, topic {LEDGER_TOPIC}",
            hint="give the brokers that have it; if the topic is lost, look how far the consumers"
            " are, and resume with --overwrite-checkpoint-ts",
        )
    if before.epoch < epoch:
        slots, delivers = max(slots, before.slots), delivers or before.delivers
        write_epoch(settings, feed, epoch, before.epochs, slots, delivers=delivers)
    return before


def _check(feed: FeedId, epoch: int, newest: tuple[int, int]) -> None:
    if newest > (feed.incarnation, epoch):
        raise FencedEpoch(
            f"our epoch is {epoch}, the ledger's is {newest[1]}",
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
