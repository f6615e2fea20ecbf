"""Going on behind rows that were lost in the middle of their delivery, which are copied again.

A changefeed that begins with rows has them in its capture's data directory. Where that is lost it
goes on as if all had been delivered: from their ts on it delivers all changes, and what its tables
lack is copied anew at a later place, as ``snapshot start`` does. All of it is values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cdc.base.errors import InvalidError
from cdc.base.ts import Ts
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import CopiedRows, CopyOrder, FeedInfo, FeedStatus, RowsAgain
from cdc.snapshot.log import SnapshotLost

_EVERY = "*.*"


class CopyAgainRefused(InvalidError):
    """A changefeed does not lack rows, or nothing is known of those that it had."""

    code = "TG:ErrCopyAgainRefused"


def check(info: FeedInfo, copied: CopiedRows | None) -> CopiedRows:
    """What it had begun with. Raises CopyAgainRefused."""
    about = f"changefeed {info.id}"
    lost = info.error is not None and info.error.code == SnapshotLost.code
    if not lost or info.rows_delivered or not info.snapshot_ts:
        raise CopyAgainRefused(
            "its rows are not lost",
            object=about,
            hint="resume it without --copy-again; cdc cli snapshot start copies rows at any time",
        )
    if copied is None or copied.ts != info.snapshot_ts or copied.ts not in copied.transactions:
        raise CopyAgainRefused(
            "an earlier version has copied its rows, and did not write down where they lay",
            object=about,
            hint="remove the changefeed and create it anew",
        )
    return copied


def behind(status: FeedStatus, copied: CopiedRows) -> FeedStatus:
    """Its progress as if it had delivered all of its rows."""
    ts = copied.ts
    tables = {name: at for name, at in status.tables.items() if at > ts}
    known = status.transactions | copied.transactions
    return FeedStatus(
        checkpoint_ts=ts,
        resolved_ts=status.resolved_ts,
        main_ts=ts,
        tables=tables,
        transactions={at: known[at] for at in {ts, *tables.values()} if at in known},
        snapshot=status.snapshot,
    )


def delivered(status: FeedStatus, copied: CopiedRows) -> frozenset[str]:
    """Tables (``schema.table``) that have all of their rows."""
    return copied.delivered(_main(status), status.tables)


def repeated(
    status: FeedStatus, copied: CopiedRows, ledger: Iterable[Ts], left: Collection[str]
) -> int:
    """At most so many rows come twice where ``left`` are copied again.

    ``ledger``: up to which ts destinations have acknowledged, whatever the progress says.
    """
    if not copied.tables:
        return copied.rows
    begun = copied.begun(max([_main(status), *status.tables.values(), *ledger]))
    return sum(t.rows for t in copied.tables if t.name in begun and t.name in left)


def ordered(info: FeedInfo, number: int, now_ms: int) -> CopyOrder:
    """The order that copies them."""
    snapshot = FeedConfig.model_validate(info.config).snapshot
    return CopyOrder(
        id=str(number),
        tables=list(snapshot.tables or [_EVERY]),
        where=snapshot.where,
        time_ms=now_ms,
        again=True,
    )


def noted(status: FeedStatus, order: CopyOrder | None, rows: int, now_ms: int) -> RowsAgain:
    """What is shown of it."""
    return RowsAgain(
        order=order.id if order is not None else "",
        main_ts=_main(status),
        tables=dict(status.tables),
        rows=rows,
        time_ms=now_ms,
        delivered=order is None,
    )


def _main(status: FeedStatus) -> Ts:
    return status.main_ts or status.checkpoint_ts
