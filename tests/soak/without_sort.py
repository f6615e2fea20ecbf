"""``cdc`` with one thing taken away: a node's transactions keep the order of their commits.

A negative control of the soak of a distributed database, as are the modules beside it. The product
has no such switch, so it is patched here, in a process of the test's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdc.cli.main import main
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.items import NodeItems

_take = NodeItems.take


def _unsorted(self: NodeItems, *how: Any) -> Any:
    items = _take(self, *how)
    # A commit without a TSO comes behind what was committed before it. Heartbeats keep theirs, or
    # the order would not begin.
    ours = (items[:, K.KIND] == K.COMMITTED) & (items[:, K.FLAGS] & K.HEARTBEAT == 0)
    items[np.ix_(ours, (K.TSO, K.TXN, K.BRANCHES))] = 0
    return items


NodeItems.take = _unsorted  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
