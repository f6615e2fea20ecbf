"""A merged log that takes the place of another has what was delivered where it was.

Its ts follow from the nodes' binlogs alone, so nothing is given: what changefeeds know of the log
before is held against what comes, and another order is told before anybody can read it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from cdc.base.errors import TidegateError
from cdc.base.ts import Ts
from cdc.changelog.index import Runs
from cdc.changelog.origin import Pin
from cdc.source.errors import TransactionMoved


class PinnedOrder:
    """Transactions whose ts is known (rising), and between which ones there are none.

    Those at or below ``resolved_ts`` were held against the log already.
    """

    def __init__(self, pins: Sequence[Pin], resolved_ts: Ts) -> None:
        self._pins = deque(pin for pin in pins if pin.floor > resolved_ts)
        self._resolved = resolved_ts

    def check(self, runs: Runs, source_id: Callable[[str], int], resolved_ts: Ts) -> None:
        """Hold the rows up to ``resolved_ts``, above those of the last call, against the pins.

        ``runs`` rise by ts; ``source_id`` is the log's number of a GTID's source. Raises
        TransactionMoved.
        """
        while self._pins and self._pins[0].name.ts <= resolved_ts:
            pin = self._pins[0]
            name = pin.name
            lo, hi = np.searchsorted(runs.commit_ts, [name.ts, pin.floor + 1])
            there = int(lo)
            if name.ts > self._resolved:
                if there == len(runs) or runs.commit_ts[there] != name.ts:
                    raise moved(pin, "the order of the nodes' binlogs")
                source, number = int(runs.gtid_source[there]), int(runs.gtid_seq[there])
                if (source, number) != (source_id(name.source), name.sequence):
                    raise moved(pin, "the order of the nodes' binlogs")
            if (runs.commit_ts[lo:hi] > name.ts).any():
                raise moved(pin, "the order of the nodes' binlogs")
            if pin.floor > resolved_ts:
                # What is between it and its floor has not come yet.
                break
            self._pins.popleft()
        self._resolved = resolved_ts


def moved(pin: Pin, where: str) -> TidegateError:
    """What is wrong if a transaction of several nodes does not lie there, ``where`` it should."""
    return TransactionMoved(
        f"{pin.name}, which was delivered at ts {pin.name.ts}, does not lie there in {where}",
        object="upstream binlogs",
        position=f"ts {pin.name.ts}",
        hint="a node has lost transactions or is another server; compare source and target, and"
        " resume with --overwrite-checkpoint-ts",
    )
