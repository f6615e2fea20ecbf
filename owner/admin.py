"""What operators do to changefeeds, as transactions on the store.

Any capture may run these: they go by the same transition table as the owner, and a compare on
the key's revision keeps the two from overwriting each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cdc.base.errors import InvalidError, TransientError
from cdc.base.position import TransactionName
from cdc.base.ts import Ts
from cdc.coord.contract import MAX_OPS, Delete, Op, Put, Store, StoredKey, Unchanged
from cdc.coord.expected import ChangedSince, Expected, check
from cdc.coord.installation import installation
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    Acknowledgements,
    ConfigChange,
    CopyOrder,
    CopyStatus,
    FeedInfo,
    FeedStatus,
    RowsAgain,
    StoredMessage,
)
from cdc.coord.snapshot_config import SnapshotMode
from cdc.coord.stored import StoredValueUnreadable, read
from owner.copies import undone
from owner.state import FeedEvent, transition
from owner.tick import next_epoch

_ATTEMPTS = 50


class ChangefeedNotFound(InvalidError):
    """There is no changefeed of this id."""

    code = "TG:ErrChangeFeedNotExists"


class ChangefeedExists(InvalidError):
    """A changefeed of this id exists."""

    code = "TG:ErrChangeFeedAlreadyExists"


class StoreBusy(TransientError):
    """Others changed the same key each time we tried."""

    code = "TG:ErrStoreBusy"


def get(
    store: Store, keys: Keys, feed: str, expected: Expected = None
) -> tuple[StoredKey, FeedInfo]:
    """The changefeed and the entry that holds it; raises ChangefeedNotFound and ChangedSince."""
    entry = store.get(keys.feed_info(feed))
    if entry is None:
        raise ChangefeedNotFound(
            "there is no such changefeed",
            object=f"changefeed {feed}",
            hint="cdc cli changefeed list --all shows those that exist",
        )
    check(entry, expected, f"changefeed {feed}")
    return entry, read(entry, FeedInfo)


def status(store: Store, keys: Keys, info: FeedInfo) -> FeedStatus:
    """Its progress; the start before the owner has written any."""
    entry = store.get(keys.feed_status(info.id))
    if entry is None:
        return FeedStatus(checkpoint_ts=info.start_ts)
    return read(entry, FeedStatus)


def check_free(store: Store, keys: Keys, feed: str) -> None:
    """Raises ChangefeedExists if there is a changefeed of this id, though it cannot be read."""
    if store.get(keys.feed_info(feed)) is not None:
        raise ChangefeedExists(
            "a changefeed of this id exists",
            object=f"changefeed {feed}",
            hint="choose another id, or remove the old one first",
        )


def create(store: Store, keys: Keys, info: FeedInfo, start: TransactionName | None = None) -> None:
    """Write a new changefeed; it starts once the owner sees it.

    ``start``: the last transaction at or below its start ts. Raises ChangefeedExists, or StoreBusy
    if its upstream changes in the same moment.
    """
    key, upstream = keys.feed_info(info.id), keys.upstream_info(info.upstream)
    entry = store.get(upstream)
    first = _beginning(info.start_ts, start)
    ops = [
        Put(key, _json(info)),
        Put(keys.feed_status(info.id), first.model_dump_json().encode()),
    ]
    # The upstream is compared too, so that it is not removed in the same moment.
    held = entry.mod_revision if entry else -1
    if not store.txn([Unchanged(key, 0), Unchanged(upstream, held)], ops):
        check_free(store, keys, info.id)
        raise StoreBusy("the upstream changed meanwhile", object=f"upstream {info.upstream}")


def pause(store: Store, keys: Keys, feed: str, expected: Expected = None) -> FeedInfo:
    """Stop delivery; the checkpoint stays."""
    return _change(store, keys, feed, FeedEvent.PAUSE, lambda _: {}, expected=expected)


def resume(
    store: Store,
    keys: Keys,
    feed: str,
    now_ms: int,
    checkpoint_ts: Ts | None = None,
    *,
    newest: int = 0,
    start: TransactionName | None = None,
    expected: Expected = None,
) -> FeedInfo:
    """Deliver again from the checkpoint under a new epoch.

    With ``checkpoint_ts`` from there, as a new incarnation: nothing of the old ledger counts.
    ``start`` is the last transaction at or below it, ``newest`` the newest incarnation that the
    ledger knows.
    """
    also: list[Op] = []
    place = installation(store, keys)
    if checkpoint_ts is not None:
        status = _beginning(checkpoint_ts, start)
        also.append(Put(keys.feed_status(feed), status.model_dump_json().encode()))

    def changes(info: FeedInfo) -> Mapping[str, Any]:
        epoch = next_epoch(info.epoch, now_ms)
        if checkpoint_ts is None:
            return {"error": None, "epoch": epoch}
        incarnation = next_epoch(max(info.incarnation, newest), now_ms)
        moved = {
            "start_ts": checkpoint_ts,
            "incarnation": incarnation,
            "installation": place,
            "piece": None,
            "again": None,
        }
        if info.copies or info.snapshot_ts:
            # Changes from there on, whatever rows were there before.
            moved |= {"snapshot_ts": checkpoint_ts, "rows_delivered": True}
        return {"error": None, "epoch": epoch, **moved}

    return _change(store, keys, feed, FeedEvent.RESUME, changes, also, expected)


def rewind(
    store: Store,
    keys: Keys,
    feed: str,
    now_ms: int,
    status: FeedStatus,
    acknowledged: Acknowledgements,
    expected: Expected = None,
) -> FeedInfo:
    """Deliver again from a progress that the sink's ledger still has, under a new epoch.

    Rows that were copied for it above that are copied again.
    """
    statuses = store.range(keys.copy_statuses_prefix(feed))[1]
    revisions = {e.key: e.mod_revision for e in statuses}
    again = undone({s.id: s for s in (read(e, CopyStatus) for e in statuses)}, status)
    also = [
        Put(keys.feed_status(feed), status.model_dump_json().encode()),
        Put(keys.acknowledged(feed), acknowledged.model_dump_json().encode()),
        *(Put(keys.copy_status(feed, i), _json(order)) for i, order in again.items()),
    ]
    compared = [
        Unchanged(key, revisions[key]) for key in (keys.copy_status(feed, i) for i in again)
    ]

    def changes(info: FeedInfo) -> Mapping[str, Any]:
        # Rows that it began with may be above: where they are gone, it cannot deliver them again.
        epoch = next_epoch(info.epoch, now_ms)
        opened: dict[str, Any] = {}
        if info.again is not None and info.again.order in again:
            opened["again"] = info.again.model_copy(update={"delivered": False})
        return {"error": None, "epoch": epoch, "rows_delivered": False, **opened}

    return _change(store, keys, feed, FeedEvent.RESUME, changes, also, expected, compared)


def copy_again(
    store: Store,
    keys: Keys,
    seen: FeedInfo,
    now_ms: int,
    status: FeedStatus,
    again: RowsAgain,
    order: CopyOrder | None,
    expected: Expected = None,
) -> FeedInfo:
    """Deliver again behind rows that were lost, under a new epoch; ``order`` copies them again.

    It was ``seen`` without its rows: raises ChangedSince where it has them, or others, by now.
    """
    also: list[Op] = [Put(keys.feed_status(seen.id), status.model_dump_json().encode())]
    compared: list[Unchanged] = []
    if order is not None:
        key = keys.copy_order(seen.id, order.id)
        also.append(Put(key, _json(order)))
        compared.append(Unchanged(key, 0))

    def changes(info: FeedInfo) -> Mapping[str, Any]:
        if (info.epoch, info.error) != (seen.epoch, seen.error):
            raise ChangedSince(
                "somebody else has changed it meanwhile",
                object=f"changefeed {seen.id}",
                hint="look at it again",
            )
        moved: dict[str, Any] = {"rows_delivered": True, "again": again, "piece": None}
        if order is not None and info.config["snapshot"]["mode"] == SnapshotMode.ONLY:
            # It ends behind the rows, wherever these will lie.
            moved["target_ts"] = 0
        return {"error": None, "epoch": next_epoch(info.epoch, now_ms), **moved}

    return _change(store, keys, seen.id, FeedEvent.RESUME, changes, also, expected, compared)


def update(
    store: Store, keys: Keys, feed: str, changes: Mapping[str, Any], expected: Expected = None
) -> FeedInfo:
    """Change what the user configured; only while it does not run."""
    return _change(store, keys, feed, FeedEvent.UPDATE, lambda _: changes, expected=expected)


def change(
    store: Store, keys: Keys, seen: FeedInfo, asked: ConfigChange, expected: Expected = None
) -> FeedInfo:
    """Have a changefeed that runs take another configuration, in place of one that it waits for.

    ``asked`` was made of what it had when it was ``seen``: raises ChangedSince where another
    operator has changed that meanwhile, whose change would be taken back by this.
    """

    def changes(info: FeedInfo) -> Mapping[str, Any]:
        if _meant(info) != _meant(seen):
            raise ChangedSince(
                "somebody else has changed it meanwhile",
                object=f"changefeed {seen.id}",
                hint="look at it again, then change it if that is still wanted",
            )
        return {"change": asked}

    return _change(store, keys, seen.id, FeedEvent.CHANGE, changes, expected=expected)


def move_table(
    store: Store,
    keys: Keys,
    feed: str,
    moved: Callable[[Mapping[str, str]], Mapping[str, str]],
    expected: Expected = None,
) -> FeedInfo:
    """Write where its tables are placed; ``moved`` makes that of where they were."""

    def changes(info: FeedInfo) -> Mapping[str, Any]:
        return {"placed": moved(info.placed)}

    return _change(store, keys, feed, FeedEvent.MOVE_TABLE, changes, expected=expected)


def _meant(info: FeedInfo) -> tuple[object, ...]:
    """What operators want of it; that a change has got a ts, or was taken, is no other wish."""
    wanted = info.change or info
    return info.upstream, info.incarnation, info.piece, wanted.sink_uri, wanted.config


def remove(store: Store, keys: Keys, feed: str, expected: Expected = None) -> bool:
    """Remove a changefeed with its progress; False if there was none."""
    for _ in range(_ATTEMPTS):
        entry = store.get(keys.feed_info(feed))
        check(entry, expected, f"changefeed {feed}")
        if entry is None:
            return False
        if _remove(store, keys, feed, entry):
            return True
    raise _busy(feed)


def _remove(store: Store, keys: Keys, feed: str, entry: StoredKey) -> bool:
    # One that cannot be read does not run, so there is no state that forbids it.
    with suppress(StoredValueUnreadable):
        transition(read(entry, FeedInfo).state, FeedEvent.REMOVE, feed)
    # A later changefeed of this id must not find what operators said of this one.
    prefixes = (
        keys.ddl_decisions_prefix(feed),
        keys.copy_orders_prefix(feed),
        keys.copy_statuses_prefix(feed),
    )
    said = [Delete(e.key) for prefix in prefixes for e in store.range(prefix)[1]]
    unchanged = Unchanged(entry.key, entry.mod_revision)
    for first in range(0, len(said), MAX_OPS):
        if not store.txn([unchanged], said[first : first + MAX_OPS]):
            return False
    also = [
        Delete(keys.feed_status(feed)),
        Delete(keys.feed_ddls(feed)),
        Delete(keys.acknowledged(feed)),
        Delete(keys.copied_rows(feed)),
    ]
    return store.txn([unchanged], [Delete(entry.key), *also])


def _change(
    store: Store,
    keys: Keys,
    feed: str,
    event: FeedEvent,
    changes: Callable[[FeedInfo], Mapping[str, Any]],
    also: Sequence[Op] = (),
    expected: Expected = None,
    compared: Sequence[Unchanged] = (),
) -> FeedInfo:
    for _ in range(_ATTEMPTS):
        entry, info = get(store, keys, feed, expected)
        state = transition(info.state, event, f"changefeed {feed}")
        after = info.model_copy(update={**changes(info), "state": state})
        ops = [Put(entry.key, _json(after)), *also]
        if store.txn([Unchanged(entry.key, entry.mod_revision), *compared], ops):
            return after
    raise _busy(feed)


def _beginning(ts: Ts, start: TransactionName | None) -> FeedStatus:
    names = {ts: start.to_list()} if start is not None else {}
    return FeedStatus(checkpoint_ts=ts, transactions=names)


def _busy(feed: str) -> StoreBusy:
    return StoreBusy("the changefeed kept changing", object=f"changefeed {feed}", hint="try again")


def _json(message: StoredMessage) -> bytes:
    return message.model_dump_json().encode()
