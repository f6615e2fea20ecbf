"""Where a changefeed stands in a turn of its owner, and whether all of it is at one ts."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.base.ts import Ts
from cdc.coord.messages import FeedStatus, Report
from owner.barrier import Pending


@dataclass(frozen=True, slots=True)
class Stands:
    """Its status, and what its processor says in this epoch.

    ``judged``: DDLs at or below it are known; ``pending`` are those that are not done; ``busy``:
    rows are copied beside it.
    """

    status: FeedStatus
    report: Report | None
    judged: Ts
    pending: tuple[Pending, ...] = ()
    busy: bool = False

    def all_at(self, ts: Ts) -> bool:
        """Whether all that it delivers is at a ts that is its barrier, and stays there.

        The processor's word: it goes by that barrier, and no destination has anything above it.
        """
        status, report = self.status, self.report
        if report is None or not report.running or report.error is not None:
            return False
        if report.barrier_ts != ts or report.checkpoint_ts != ts or report.furthest_ts > ts:
            return False
        one = not report.table_checkpoints and not report.stopped_tables and not status.tables
        reached = status.checkpoint_ts == status.main_ts == ts
        return one and reached and self.judged >= ts and all(p.ts > ts for p in self.pending)
