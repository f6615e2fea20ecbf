"""``merge_txn``: sorting and merging the transactions of 2, 16 and 64 nodes, in one thread.

The input is what a cluster's logs come to: per distributed transaction a prepare and a commit on
two nodes, among others that are open at the same time (about 32), so that commits do not come in
the order of their TSOs; as many local transactions as a fifth of these; and a heartbeat on all
nodes after every 1,000. Whole transactions are counted, not parts. The published figure of
PolarDB-X is 350,000 transactions a second on two machines of 16 cores each.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.figures import Figure
from bench.settings import Settings
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.cluster import ClusterMerge, ClusterStand

_NODES = (2, 16, 64)
_TRANSACTIONS = 1_000_000
_STEP = 20_000  # transactions of a step
_PUBLISHED, _WANTED = 350_000, 1_000_000
_HEARTBEAT = 1_000
_OPEN = 32.0

Items = NDArray[np.int64]


def txn(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Transactions a second, and how flat it is from the fewest nodes to the most."""
    count = settings.rows or _TRANSACTIONS
    found: dict[int, list[float]] = {}
    for nodes in _NODES:
        steps = _logs(nodes, count)
        found[nodes] = [_run(nodes, steps, count) for _ in range(settings.runs)]
        rates = ", ".join(f"{r / 1e6:.2f}" for r in found[nodes])
        print(f"merge_txn {nodes} nodes: {rates} M transactions/s", flush=True)
    medians = {nodes: statistics.median(rates) for nodes, rates in found.items()}
    figures = [
        Figure.more(f"merge_txn_{n}", rate, "transactions/s", "target", _WANTED)
        for n, rate in medians.items()
    ]
    slowest = min(medians.values())
    figures += [
        Figure.more("merge_txn", slowest, "transactions/s", "published", _PUBLISHED),
        Figure.more("merge_txn_flat", medians[64] / medians[2], "64 : 2 nodes", "target", 1.0),
    ]
    return figures, {"merge_txn": {"transactions": count, "runs": found}}


def _run(nodes: int, steps: list[list[Items]], count: int) -> float:
    """Transactions a second of processor time; every transaction must come out."""
    merge = ClusterMerge.begin([f"n{i}" for i in range(nodes)], ClusterStand.first(nodes))
    whole = 0
    began = time.process_time()
    for items in steps:
        merge, merged = merge.step(items)
        whole += int(np.count_nonzero(merged.first))
    spent = time.process_time() - began
    # All but the first heartbeat, and those that are held back at the end.
    if whole < count * 0.99:
        raise RuntimeError(f"{whole} transactions of {count} came out")
    return whole / spent


def _logs(nodes: int, count: int) -> list[list[Items]]:
    """Items of each node by steps, numbered by their moment."""
    rng = np.random.default_rng(nodes)
    heartbeats = np.arange(0, count, _HEARTBEAT)
    local = rng.random(count) < 1 / 6
    local[heartbeats] = False
    begun = np.arange(count, dtype=float)
    prepared = begun + rng.random(count)
    asked = prepared + rng.exponential(_OPEN / 2, count)
    tso = np.empty(count, np.int64)
    tso[np.argsort(asked, kind="stable")] = np.arange(1, count + 1)
    one = rng.integers(0, nodes, count)
    other = (one + rng.integers(1, nodes, count)) % nodes
    distributed = np.flatnonzero(~local & (np.arange(count) % _HEARTBEAT != 0))
    pieces = [(distributed, one[distributed], 0), (distributed, other[distributed], 0)]
    pieces += [(heartbeats, np.full(len(heartbeats), n), K.HEARTBEAT) for n in range(nodes)]
    who = np.concatenate([p[0] for p in pieces])
    node = np.concatenate([p[1] for p in pieces])
    flags = np.concatenate([np.full(len(p[0]), p[2]) for p in pieces])
    parts = np.where(flags == 0, 2, nodes)
    ended = asked[who] + rng.exponential(_OPEN / 2, len(who))
    alone = np.flatnonzero(local)
    rows = np.concatenate(
        [
            _items(prepared[who], node, K.PREPARED, who, 0, 0, 0, 0),
            _items(ended, node, K.COMMITTED, who, tso[who], who + 1, flags, parts),
            _items(begun[alone], one[alone], K.LOCAL, -1, 0, 0, 0, 0),
        ]
    )
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    moments, node, items = rows[:, 0], rows[:, 1].astype(int), rows[:, 1:].astype(np.int64)
    items[:, K.NUMBER] = np.arange(1, len(items) + 1)
    edges = np.searchsorted(moments, np.arange(0, count + _STEP, _STEP))
    edges[-1] = len(items)
    steps = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        by_node = np.argsort(node[a:b], kind="stable")
        cuts = np.searchsorted(node[a:b][by_node], np.arange(1, nodes))
        steps.append(np.split(np.ascontiguousarray(items[a:b][by_node]), cuts))
    return steps


def _items(moment: Any, node: Any, kind: int, key: Any, *rest: Any) -> NDArray[np.float64]:
    """Rows of moment, node (where an item has its number), and an item's other columns."""
    columns = (moment, node, kind, key, *rest)
    return np.stack([np.broadcast_to(c, moment.shape) for c in columns], axis=1).astype(float)
