"""Operators' orders to copy rows, as transactions on the store."""

from __future__ import annotations

from cdc.base.errors import InvalidError
from cdc.coord.contract import Put, Store, Unchanged
from cdc.coord.keys import Keys
from cdc.coord.messages import CopyOrder, CopyStatus
from cdc.coord.stored import read
from owner.admin import StoreBusy, get
from owner.copies import ENDED, STOPPABLE, Orders
from owner.requests import NewCopy

_ATTEMPTS = 50


class CopyNotFound(InvalidError):
    """There is no order to copy rows of this number."""

    code = "TG:ErrSnapshotNotExists"


class CopyNotCancelled(InvalidError):
    """The order has ended, or its rows are already delivered."""

    code = "TG:ErrSnapshotNotCancelled"


class CopyNotPaused(InvalidError):
    """The order cannot be paused or resumed: it has ended, or its rows are already delivered."""

    code = "TG:ErrSnapshotNotPaused"


def ordered(store: Store, keys: Keys, feed: str) -> Orders:
    """All orders of a changefeed, and what its owner says of them. Raises ChangefeedNotFound."""
    get(store, keys, feed)
    asked = [read(e, CopyOrder) for e in store.range(keys.copy_orders_prefix(feed))[1]]
    said = (read(e, CopyStatus) for e in store.range(keys.copy_statuses_prefix(feed))[1])
    return Orders(sorted(asked, key=lambda order: int(order.id)), {s.id: s for s in said})


def unfinished(store: Store, keys: Keys, feed: str) -> bool:
    """Whether rows are copied for a changefeed, or are going to be. Raises ChangefeedNotFound."""
    found = ordered(store, keys, feed)
    return any(found.status(o.id).state not in ENDED and not o.cancelled for o in found.asked)


def one(found: Orders, feed: str, number: str) -> CopyOrder:
    """One of them. Raises CopyNotFound."""
    for order in found.asked:
        if order.id == number:
            return order
    raise CopyNotFound(
        "there is no such snapshot",
        object=f"changefeed {feed}, snapshot {number}",
        hint="cdc cli snapshot list shows those that there are",
    )


def next_number(store: Store, keys: Keys, feed: str) -> int:
    """That of the next one. Raises ChangefeedNotFound."""
    return max((int(o.id) for o in ordered(store, keys, feed).asked), default=0) + 1


def add(store: Store, keys: Keys, feed: str, asked: NewCopy, now_ms: int) -> CopyOrder:
    """Write a new one; the owner begins it when those before it have ended."""
    for _ in range(_ATTEMPTS):
        entry, _ = get(store, keys, feed)
        order = CopyOrder(
            id=str(next_number(store, keys, feed)),
            tables=list(asked.tables),
            where=asked.where,
            time_ms=now_ms,
            repairs=asked.repairs,
            key=list(asked.key),
            target_only=[list(key) for key in asked.target_only],
        )
        key = keys.copy_order(feed, order.id)
        put = Put(key, order.model_dump_json().encode())
        # The changefeed is compared too, so that it is not removed in the same moment.
        if store.txn([Unchanged(key, 0), Unchanged(entry.key, entry.mod_revision)], [put]):
            return order
    raise StoreBusy("the changefeed kept changing", object=f"changefeed {feed}", hint="try again")


def cancel(store: Store, keys: Keys, feed: str, number: str) -> CopyOrder:
    """Cancel one that copies or waits. Raises CopyNotFound or CopyNotCancelled."""
    if one(ordered(store, keys, feed), feed, number).again:
        raise CopyNotCancelled(
            "its rows are those that the changefeed began with, and which its target lacks",
            object=f"changefeed {feed}, snapshot {number}",
            hint="pause it; or remove the changefeed",
        )
    return _change(store, keys, feed, number, CopyNotCancelled, "cancelled", cancelled=True)


def pause(store: Store, keys: Keys, feed: str, number: str, *, paused: bool) -> CopyOrder:
    """Pause one that copies or waits, or let it go on. Raises CopyNotFound or CopyNotPaused."""
    return _change(
        store, keys, feed, number, CopyNotPaused, "paused" if paused else "resumed", paused=paused
    )


def _change(
    store: Store,
    keys: Keys,
    feed: str,
    number: str,
    refused: type[InvalidError],
    done: str,
    **changes: bool,
) -> CopyOrder:
    for _ in range(_ATTEMPTS):
        found = ordered(store, keys, feed)
        status = found.status(number)
        before, order = store.get(keys.copy_order(feed, number)), one(found, feed, number)
        if status.state not in STOPPABLE or order.cancelled or before is None:
            raise refused(
                f"it is {'cancelled' if order.cancelled else status.state}; only what waits or"
                f" copies can be {done}",
                object=f"changefeed {feed}, snapshot {number}",
                hint="nothing is left to do; cdc cli snapshot show says how it ended",
            )
        after = read(before, CopyOrder).model_copy(update=changes)
        put = Put(before.key, after.model_dump_json().encode())
        if store.txn([Unchanged(before.key, before.mod_revision)], [put]):
            return after
    raise StoreBusy("the snapshot kept changing", object=f"changefeed {feed}", hint="try again")
