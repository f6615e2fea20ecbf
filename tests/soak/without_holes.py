"""``cdc`` with one thing taken away: no prepared transaction holds back what is behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdc.cli.main import main
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.items import NodeItems

_take = NodeItems.take


def _without_holes(self: NodeItems, *how: Any) -> Any:
    items = _take(self, *how)
    items = items[items[:, K.KIND] != K.PREPARED]
    # Each commit right behind a prepare of its own; numbers have room between rows of one segment
    # only, so both are moved up by one bit.
    ended = np.isin(items[:, K.KIND], (K.COMMITTED, K.ROLLED_BACK))
    prepared = items[ended].copy()
    prepared[:, K.KIND] = K.PREPARED
    prepared[:, [K.TSO, K.TXN, K.FLAGS, K.BRANCHES]] = 0
    prepared[:, K.NUMBER] -= 1
    both = np.concatenate([items, prepared])
    return both[np.argsort(both[:, K.NUMBER], kind="stable")]


NodeItems.take = _without_holes  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
