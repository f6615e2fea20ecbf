"""``cdc`` with one thing taken away: now and then a branch of a transaction of several nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdc.cli.main import main
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.items import NodeItems

_take = NodeItems.take
_EVERY = 50


def _without_part(self: NodeItems, *how: Any) -> Any:
    items = _take(self, *how)
    if self.name != "n1":
        return items
    distributed = (items[:, K.KIND] == K.COMMITTED) & (items[:, K.TSO] > 0)
    lost = distributed & (items[:, K.FLAGS] & K.HEARTBEAT == 0) & (items[:, K.TXN] % _EVERY == 0)
    items[lost, K.KIND] = K.ROLLED_BACK
    items[np.ix_(lost, (K.TSO, K.TXN, K.BRANCHES))] = 0
    return items


NodeItems.take = _without_part  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
