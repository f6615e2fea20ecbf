"""What a recovery has found, and by which a changefeed is delivered until the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cdc.base.position import Stand
from cdc.base.ts import Ts
from processor.catalog import DeliveredTables
from processor.standing import Standing, passed
from processor.task_messages import FeedPlan
from sink.contract import Destination, Sink, SinkDriver


@dataclass(frozen=True)
class Takeover:
    """The sink, taken over; ``kept``, ``parted`` and ``recorded`` as ``sink.contract.Recovered``.

    ``starts``: destinations that the ledger says are ahead of where all tables stand. ``newest_ts``
    is how far the log had resolved: the sink has places for the tables up to there.
    """

    plan: FeedPlan
    sink: Sink
    driver: SinkDriver
    catalog: DeliveredTables
    starts: Mapping[Destination, Stand]
    kept: bool
    parted: frozenset[str]
    recorded: bool
    newest_ts: Ts

    def after(self, standing: Standing) -> Takeover:
        """It, once all tables stand so."""
        left = {d: at for d, at in self.starts.items() if not passed(at, standing)}
        return self if len(left) == len(self.starts) else replace(self, starts=left)

    def at_one_position(self, standing: Standing) -> bool:
        """Whether no destination is ahead, or none with a table that is parted, if any is."""
        here = standing.stand()
        ahead = self.starts.values()
        if not ahead:
            return True
        return bool(self.parted) and all(
            at.of(t) <= here.of(t) for at in ahead for t in self.parted
        )

    def caps(self, standing: Standing) -> dict[str, Ts]:
        """Up to which ts parted tables may go.

        Rows that a destination may have go where they went; those above have no place yet.
        """
        ahead = self.starts.values()
        return {t: max([standing.of(t).ts, *(at.of(t).ts for at in ahead)]) for t in self.parted}
