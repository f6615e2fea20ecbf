"""Orders to copy rows for a changefeed that runs, from tick to tick: waiting, copied, delivered.

One after the other is carried out; those behind one that is paused wait with it. The processor
copies beside delivery; when all is read, the owner begins an epoch in whose log the rows have a
place (``FeedInfo.piece``), and when all tables of it have come past that, the piece is over. All of
it is values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdc.base.errors import DefiniteError, ErrorKind
from cdc.coord.messages import (
    CopyOrder,
    CopyReport,
    CopyState,
    CopyStatus,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    Report,
    RowsPiece,
    SnapshotProgress,
)
from cdc.coord.snapshot_config import SnapshotMode

ENDED = frozenset({CopyState.DELIVERED, CopyState.FAILED, CopyState.CANCELLED})
"""States of an order from which it does not go on."""

STOPPABLE = frozenset({CopyState.WAITING, CopyState.COPYING, CopyState.PAUSED})
"""States in which an order can be paused or cancelled: nothing of it is delivered."""

Reads = Mapping[str, SnapshotProgress]
"""How far copies are, by what they are called."""

_RUNNING = frozenset({FeedState.NORMAL, FeedState.WARNING})


class RowsPastTarget(DefiniteError):
    """Rows that a changefeed begins with were copied as of a ts above the one at which it ends."""

    code = "TG:ErrSnapshotPastTarget"


def past_target(info: FeedInfo, copied: SnapshotProgress, now_ms: int) -> ErrorInfo | None:
    """Why a changefeed cannot begin with what was copied, if it cannot.

    It would end before its rows, or among them, as if all were delivered.
    """
    only = info.config["snapshot"]["mode"] == SnapshotMode.ONLY
    if only or not info.target_ts or copied.ts <= info.target_ts:
        return None
    error = RowsPastTarget(
        f"its rows were copied as of ts {copied.ts}, which is above its target-ts {info.target_ts}",
        object=f"changefeed {info.id}",
        position=f"ts {copied.ts}",
        hint="update it with a later --target-ts, or 0 for none, and resume: rows are copied anew",
    )
    return ErrorInfo.of(error, now_ms)


def rows_missing(info: FeedInfo, now_ms: int) -> ErrorInfo:
    """A changefeed has come to its end, and rows are copied again that would lie behind it."""
    error = RowsPastTarget(
        f"its target-ts {info.target_ts} is reached, and rows that were lost are still copied",
        object=f"changefeed {info.id}",
        position=f"ts {info.target_ts}",
        hint="update it with a later --target-ts, or 0 for none, and resume",
    )
    return ErrorInfo.of(error, now_ms)


@dataclass(frozen=True, slots=True)
class Orders:
    """What operators have ordered, oldest first, and what was last said of each, by id."""

    asked: Sequence[CopyOrder] = ()
    known: Mapping[str, CopyStatus] = field(default_factory=dict)

    def status(self, order: str) -> CopyStatus:
        """What was last said of one."""
        return self.known.get(order) or CopyStatus(id=order)


@dataclass(frozen=True, slots=True)
class CopyTurn:
    """What a tick makes of the orders.

    ``order``: what the processor is to copy. ``piece``: what is delivered; it has changed if
    ``begins``, which takes a new epoch, or ``ends``. ``statuses``: those that have changed.
    """

    order: CopyOrder | None = None
    piece: RowsPiece | None = None
    begins: bool = False
    ends: bool = False
    statuses: Mapping[str, CopyStatus] = field(default_factory=dict)

    @property
    def low_ts(self) -> int:
        """The log is needed above it; 0 if no copy is in work."""
        status = self.statuses.get(self.order.id) if self.order else None
        return status.progress.low_ts if status and status.progress else 0


def advance(info: FeedInfo, status: FeedStatus, report: Report | None, orders: Orders) -> CopyTurn:
    """The turn of a changefeed; ``status`` is what will be written, ``report`` of its epoch."""
    statuses = {
        o.id: orders.status(o.id).model_copy(update={"state": CopyState.CANCELLED})
        for o in orders.asked
        if o.cancelled
        and orders.status(o.id).state in STOPPABLE
        and (info.piece is None or info.piece.id != o.id)
    }
    turn = _turn(info, status, report, orders)
    if info.state is FeedState.FINISHED:
        turn = _ended(info, turn, orders)
    changed = {**statuses, **turn.statuses}
    new = {i: s for i, s in changed.items() if s != orders.known.get(i)}
    # The one in work is always among them: it says from where on the log is needed.
    kept = {turn.order.id: turn.statuses[turn.order.id]} if turn.order else {}
    return CopyTurn(turn.order, turn.piece, turn.begins, turn.ends, new | kept)


def _turn(info: FeedInfo, status: FeedStatus, report: Report | None, orders: Orders) -> CopyTurn:
    copied = report.copied if report else None
    if info.piece is not None:
        return _delivering(info.piece, status, copied, orders)
    open_ = (o for o in orders.asked if not o.cancelled and orders.status(o.id).state not in ENDED)
    order = next(open_, None)
    if order is None or info.state not in _RUNNING or info.copies:
        return CopyTurn()
    if info.snapshot_ts and not info.rows_delivered:
        # It still delivers the rows that it has begun with.
        return CopyTurn()
    known = orders.status(order.id)
    now = CopyState.PAUSED if order.paused else CopyState.COPYING
    if order.paused and known.progress is None:
        # Nothing has been read yet, so there is nothing to keep, nor of the log.
        return CopyTurn(statuses={order.id: _said(known, now)})
    if copied is None or copied.id != order.id:
        return CopyTurn(order, statuses={order.id: _said(known, now)})
    said = known.model_copy(
        update={"state": now, "progress": copied.progress, "error": copied.error}
    )
    if copied.error is not None:
        # What the changefeed cannot go on without is tried again when that is resumed.
        if copied.error.kind != ErrorKind.TRANSIENT and not order.again:
            return CopyTurn(statuses={order.id: _said(said, CopyState.FAILED)})
    elif copied.progress.ts:
        at = copied.progress
        piece = RowsPiece(id=order.id, tables=copied.tables, base_ts=at.base_ts, ts=at.ts)
        done = said.model_copy(update={"state": CopyState.DELIVERING, "tables": copied.tables})
        return CopyTurn(piece=piece, begins=True, statuses={order.id: done})
    return CopyTurn(order, statuses={order.id: said})


def _ended(info: FeedInfo, turn: CopyTurn, orders: Orders) -> CopyTurn:
    """Nothing comes behind the changefeed's end where rows could have a place."""
    known = {o.id: turn.statuses.get(o.id, orders.status(o.id)) for o in orders.asked}
    cancelled = {i: _said(s, CopyState.CANCELLED) for i, s in known.items() if s.state not in ENDED}
    statuses = {**turn.statuses, **cancelled}
    return CopyTurn(ends=info.piece is not None, statuses=statuses)


def _delivering(
    piece: RowsPiece, status: FeedStatus, copied: CopyReport | None, orders: Orders
) -> CopyTurn:
    known = orders.status(piece.id)
    if copied is not None and copied.id == piece.id and copied.lost:
        # Its files are with a capture that is gone: all is copied again, at a later place.
        again = _said(known, CopyState.COPYING).model_copy(update={"progress": None})
        return CopyTurn(begins=True, statuses={piece.id: again})
    main = status.main_ts or status.checkpoint_ts
    if all(status.tables.get(table, main) >= piece.ts for table in piece.tables):
        return CopyTurn(ends=True, statuses={piece.id: _said(known, CopyState.DELIVERED)})
    return CopyTurn(piece=piece)


def fails(info: FeedInfo, report: Report) -> ErrorInfo | None:
    """Why rows cannot be copied that a changefeed does not go on without."""
    copied, again = report.copied, info.again
    if copied is None or copied.error is None or again is None or copied.id != again.order:
        return None
    return None if copied.error.kind == ErrorKind.TRANSIENT else copied.error


def read_now(status: FeedStatus, orders: Orders, new: Mapping[str, CopyStatus]) -> Reads:
    """Copies whose rows are read: by the order's number, ``initial`` what a changefeed begins with.

    ``new`` is what was said of orders since they were ``known``.
    """
    found = {i: s.progress for i, s in {**orders.known, **new}.items() if s.state in STOPPABLE}
    found["initial"] = status.snapshot
    return {name: progress for name, progress in found.items() if progress and progress.reading}


def undone(known: Mapping[str, CopyStatus], status: FeedStatus) -> dict[str, CopyStatus]:
    """Orders that are carried out anew where a changefeed goes back to ``status``, by id.

    The rows of a delivered one lie nowhere but at the target: where that has lost them, they are
    read again.
    """
    main = status.main_ts or status.checkpoint_ts
    return {
        order.id: _said(order, CopyState.COPYING).model_copy(update={"progress": None})
        for order in known.values()
        if order.state is CopyState.DELIVERED
        and order.progress is not None
        and any(status.tables.get(table, main) < order.progress.ts for table in order.tables)
    }


def _said(status: CopyStatus, state: CopyState) -> CopyStatus:
    return status.model_copy(update={"state": state})
