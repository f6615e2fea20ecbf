"""The book of prepared XA transactions: whose rows are in the log without a commit yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cdc.changelog.index import RunKind, Runs

_STEPS = (RunKind.PREPARE, RunKind.COMMIT, RunKind.ROLLBACK)


@dataclass
class PreparedBook:
    """PREPARE rows by xid id, in order of the log; segments are absolute."""

    _runs: dict[int, list[Runs]] = field(default_factory=dict)

    def copy(self) -> PreparedBook:
        """The same, to be changed on its own."""
        return PreparedBook({xid: list(parts) for xid, parts in self._runs.items()})

    def apply(self, runs: Runs) -> list[int]:
        """Take a stretch of the index; returns the xids that ended in it."""
        ended: list[int] = []
        steps = np.flatnonzero(np.isin(runs.kind, _STEPS) & (runs.xid >= 0))
        at = 0
        while at < len(steps):
            xid, kind = int(runs.xid[steps[at]]), int(runs.kind[steps[at]])
            end = at + 1
            while end < len(steps) and (runs.xid[steps[end]], runs.kind[steps[end]]) == (xid, kind):
                end += 1
            if kind == RunKind.PREPARE:
                self._runs.setdefault(xid, []).append(runs.take(steps[at:end]))
            else:
                self._runs.pop(xid, None)
                ended.append(xid)
            at = end
        return ended

    def rows_of(self, xid: int) -> Runs:
        """The rows runs of a prepared transaction, as DML runs without a commit ts."""
        found = Runs.concat(self._runs.get(xid, []))
        found = found.take(found.table >= 0)
        found.kind[:] = RunKind.DML
        return found

    def holds(self, xid: int) -> bool:
        """Whether the transaction is prepared now."""
        return xid in self._runs

    def xids(self) -> list[int]:
        """Ids of the transactions that are prepared now."""
        return list(self._runs)

    def segments(self) -> dict[int, int]:
        """The first segment of each transaction that is prepared, by its xid's number."""
        return {x: min(int(r.segment.min()) for r in parts) for x, parts in self._runs.items()}

    def oldest_segment(self) -> int:
        """Lowest segment with a row of a prepared transaction, 0 if there is none."""
        return min(self.segments().values(), default=0)
