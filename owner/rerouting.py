"""Whether a changefeed may send its rows elsewhere from its checkpoint on.

Delivery goes on behind the checkpoint, and each destination skips what the ledger says it has. That
is right only as long as a row goes where it went before. So while the ledger is ahead of the
checkpoint (a table has stopped below the others, or a window was cut short), rows must not move to
another destination, and no table may join.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc.base.errors import InvalidError
from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.schema.table import Table
from sink.contract import Sink


class ReroutingRefused(InvalidError):
    """Rows would go elsewhere while the ledger is ahead of the checkpoint."""

    code = "TG:ErrReroutingRefused"


def check_rerouting(
    feed: FeedId,
    before: Sink,
    after: Sink,
    tables_before: Iterable[Table],
    tables_after: Iterable[Table],
    checkpoint_ts: Ts,
) -> None:
    """Raises ``TG:ErrReroutingRefused`` if rows would be lost or repeated."""
    known = {t.full_name for t in tables_before}
    joining = [t.full_name for t in tables_after if t.full_name not in known]
    if before.routing == after.routing and not joining:
        return
    ahead = {
        destination: position
        for destination, position in before.driver().delivered(feed).items()
        if position > Position(checkpoint_ts)
    }
    if not ahead:
        return
    what = f"table {joining[0]} would join" if joining else "rows would change their partitions"
    raise ReroutingRefused(
        f"{what} while {len(ahead)} partitions are ahead of the checkpoint",
        object=f"changefeed {feed}",
        position=f"ts {checkpoint_ts}",
        hint="exclude the stopped tables and resume until the checkpoint has caught up, then pause "
        "and update again; or create a new changefeed",
    )
