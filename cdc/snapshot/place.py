"""Where in the order of a log rows may lie that come between its changes."""

from __future__ import annotations

import numpy as np

from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog


def free_place(log: ChangeLog, above: Ts, least: Ts, length: int) -> Ts | None:
    """The lowest ts, of those that are not below ``least``, with room before it; None yet.

    The log has no row and no statement in ``(ts - 1 - length, ts]``, and all of it lies above
    ``above``. Transactions within one millisecond take few of its 2^18 ts, so there is room soon.
    Raises LogCollected.
    """
    resolved_ts = log.state.resolved_ts
    lo = max(above, least - 1 - length)
    if lo >= resolved_ts:
        return None
    rows = log.runs(Position(lo), Position(resolved_ts)).commit_ts
    statements = log.ddls(lo, resolved_ts).commit_ts
    taken = np.unique(np.concatenate(([lo, resolved_ts + 1], rows, statements)).astype(np.int64))
    ends = np.maximum(taken[:-1] + 1 + length, least)
    fits = np.flatnonzero(ends < taken[1:])
    return int(ends[fits[0]]) if len(fits) else None
