"""What the upstream calls the transactions of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdc.base.ts import Ts
from cdc.base.vtso import VTso
from cdc.changelog.index import Runs
from cdc.changelog.vtso_marks import NO_MARKS, table, vtso_at


class GtidName(NamedTuple):
    """A GTID: ``source`` is ``domain-server`` of MariaDB, uuid (and tag) of MySQL."""

    source: str
    sequence: int


@dataclass(frozen=True, slots=True)
class RunTransactions:
    """The transactions of ``runs``, which rise by ts; ``sources`` is the log's dictionary.

    ``marks`` are what the coordinator of a cluster calls them. ``binlog`` is what the upstream's
    binlog files are called before their number; empty where it is not known.
    """

    runs: Runs
    sources: Mapping[int, str]
    marks: Runs | None = None
    binlog: str = ""

    def vtso(self, ts: Ts) -> VTso | None:
        """The virtual TSO of the transaction at ``ts``; None where no coordinator has given one."""
        return None if self.marks is None else vtso_at(self.marks, ts)

    def named(self) -> NDArray[np.int64]:
        """The marks of the runs' transactions, as ``cdc.changelog.vtso_marks.table`` has them."""
        if self.marks is None or not len(self.runs):
            return NO_MARKS
        return table(self.marks, int(self.runs.commit_ts.min()), int(self.runs.commit_ts.max()))

    def gtid(self, ts: Ts) -> GtidName | None:
        """The GTID of the transaction at ``ts``; None if it has none, or is none of the runs'."""
        at = int(np.searchsorted(self.runs.commit_ts, ts))
        if at == len(self.runs) or int(self.runs.commit_ts[at]) != ts:
            return None
        source = self.sources.get(int(self.runs.gtid_source[at]))
        return None if not source else GtidName(source, int(self.runs.gtid_seq[at]))
