"""``cdc`` with one thing taken away: on one node, heartbeats behind the first are not seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdc.cli.main import main
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.items import NodeItems

_take = NodeItems.take
# More than there are before all is set up.
_FIRST = 400
_seen = [0]


def _without_heartbeat(self: NodeItems, *how: Any) -> Any:
    items = _take(self, *how)
    if self.name != "n1":
        return items
    beats = np.flatnonzero(items[:, K.FLAGS] & K.HEARTBEAT)
    late = beats[max(0, _FIRST - _seen[0]) :]
    _seen[0] += len(beats)
    items[late, K.KIND] = K.ROLLED_BACK
    items[np.ix_(late, (K.TSO, K.TXN, K.FLAGS, K.BRANCHES))] = 0
    return items


NodeItems.take = _without_heartbeat  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
