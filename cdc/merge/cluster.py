"""All nodes of a cluster as one sequence of whole transactions, step by step.

What a step returns depends on the nodes' items alone, not on how they were cut into steps; and a
merge that was restored from its stand returns what is left, with the same virtual TSOs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cdc.base.vtso import TSO_LOGICAL_BITS, VTso
from cdc.kernels import merge_nodes as N  # noqa: N812
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.errors import MergeBranchMissing, MergeGoesBack, MergeHeartbeatIncomplete
from cdc.merge.node_sort import NodeSort, NodeStand, Table

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ClusterStand:
    """What must be kept to go on after a restart: small, whatever is open.

    Everything below ``horizon`` (a TSO) was returned; 0 until the nodes were aligned. What a node
    commits below ``anew_below``, and was prepared before its log begins, was returned out of the
    logs before these.
    """

    nodes: tuple[NodeStand, ...]
    horizon: int = 0
    anew_below: int = 0

    @classmethod
    def first(cls, nodes: int) -> ClusterStand:
        """Of so many nodes of which nothing was read."""
        return cls((NodeStand(),) * nodes)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        nodes = [n.to_list() for n in self.nodes]
        return {"nodes": nodes, "horizon": self.horizon, "anew_below": self.anew_below}

    def anew(self) -> ClusterStand:
        """The same over other logs of the nodes: they are read from their beginning.

        Each must begin at or before the item of its node's stand. What was prepared before that
        begin has ended below the horizon, or it would be the item of the stand.
        """
        first = ClusterStand.first(len(self.nodes))
        return replace(first, horizon=self.horizon, anew_below=self.horizon)

    @classmethod
    def of(cls, value: dict[str, Any]) -> ClusterStand:
        """Inverse of ``to_dict``."""
        nodes = tuple(NodeStand.of(n) for n in value["nodes"])
        return cls(nodes, int(value["horizon"]), int(value.get("anew_below", 0)))


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Branches of transactions in the cluster's order; equally long arrays.

    A transaction's branches lie together, the first of them has ``first``. ``number`` is that of a
    branch's commit among its node's items, ``node`` counts from 0. ``sequence`` is 0 for a
    distributed transaction. Everything below ``horizon`` (a TSO) is there.
    """

    node: NDArray[np.int64]
    number: NDArray[np.int64]
    tso: NDArray[np.int64]
    transaction: NDArray[np.int64]
    sequence: NDArray[np.int64]
    flags: NDArray[np.int64]
    first: NDArray[np.bool_]
    horizon: int

    def __len__(self) -> int:
        return len(self.node)

    def vtso(self, i: int) -> VTso:
        """The place of branch ``i``; branches of one transaction have the same."""
        sequence = int(self.sequence[i])
        node = int(self.node[i]) + 1 if sequence else 0
        return VTso(int(self.tso[i]), int(self.transaction[i]), sequence, node)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterMerge:
    """The merge between two steps."""

    names: tuple[str, ...]
    nodes: tuple[NodeSort, ...]
    ready: tuple[Table, ...]
    state: NDArray[np.int64]
    anew_below: int = 0

    @classmethod
    def begin(cls, names: Sequence[str], stand: ClusterStand) -> ClusterMerge:
        """As it was at ``stand``; each node's items come from its stand's number on."""
        state = np.zeros(N.STATE_SIZE, np.int64)
        state[N.LAST_TSO] = state[N.LAST_NODE] = -1
        state[N.SKIP] = state[N.HORIZON] = stand.horizon
        state[N.ALIGNED] = stand.horizon > 0
        nodes = tuple(NodeSort.begin(node, stand.anew_below) for node in stand.nodes)
        empty = np.empty((0, K.QUEUE_SIZE), np.int64)
        return cls(tuple(names), nodes, (empty,) * len(nodes), state, stand.anew_below)

    @property
    def aligned(self) -> bool:
        """Whether a heartbeat of all nodes was seen; before it nothing is returned."""
        return bool(self.state[N.ALIGNED])

    @property
    def begun(self) -> int:
        """The TSO of that heartbeat, once it was seen: nothing lower is returned."""
        return int(self.state[N.ALIGNED])

    @property
    def horizon(self) -> int:
        """Everything below this TSO was returned."""
        return int(self.state[N.HORIZON])

    def holding(self) -> int:
        """The node that holds back all others: what it has is final up to the lowest TSO."""
        return min(range(len(self.nodes)), key=lambda n: self.nodes[n].floor)

    def behind_ms(self) -> int:
        """How far the node that holds back all is behind the one that is known furthest."""
        floors = [node.floor for node in self.nodes]
        return (max(floors) - min(floors)) >> TSO_LOGICAL_BITS

    def waiting(self, node: int) -> int:
        """How many transactions of a node are committed and not returned yet."""
        return self.nodes[node].waiting + len(self.ready[node])

    def left(self, node: int) -> NDArray[np.int64]:
        """Numbers (int64) of these."""
        rows = np.concatenate([self.nodes[node].queue, self.ready[node]])
        return rows[:, K.Q_NUMBER]

    def change(self, counts: Collection[int]) -> tuple[int, int] | None:
        """The first heartbeat that is not taken and has one of these numbers of branches.

        Its TSO, and the number.
        """
        rows = np.concatenate([*(node.queue for node in self.nodes), *self.ready])
        beats = (rows[:, K.Q_FLAGS] & K.HEARTBEAT) != 0
        rows = rows[beats & np.isin(rows[:, K.Q_BRANCHES], list(counts))]
        if not len(rows):
            return None
        first = rows[np.argmin(rows[:, K.Q_TSO])]
        return int(first[K.Q_TSO]), int(first[K.Q_BRANCHES])

    def drained(self, node: int) -> bool:
        """Whether all that was read of a node was taken, and nothing is prepared there."""
        return not self.waiting(node) and self.nodes[node].oldest_open is None

    def joined(self, name: str) -> ClusterMerge:
        """With another node, of which nothing was read: what it has below the horizon is left."""
        state = self.state.copy()
        state[N.SKIP] = max(state[N.SKIP], state[N.HORIZON])
        nodes = (*self.nodes, NodeSort.begin(NodeStand()))
        empty = np.empty((0, K.QUEUE_SIZE), np.int64)
        ready = (*self.ready, empty)
        return replace(self, names=(*self.names, name), nodes=nodes, ready=ready, state=state)

    def without(self, node: int) -> ClusterMerge:
        """Without a node that is drained."""
        state = self.state.copy()
        # All that comes has a larger TSO than what was taken.
        state[N.LAST_NODE] = -1
        return replace(
            self,
            names=_without(self.names, node),
            nodes=_without(self.nodes, node),
            ready=_without(self.ready, node),
            state=state,
        )

    def stand(self) -> ClusterStand:
        """What to keep, together with what the steps so far have returned."""
        pairs = zip(self.nodes, self.ready, strict=True)
        return ClusterStand(
            tuple(node.stand(ready) for node, ready in pairs),
            self.horizon if self.aligned else 0,
            self.anew_below,
        )

    def step(
        self, items: Sequence[Table], counts: Collection[int] = (), ended: Collection[int] = ()
    ) -> tuple[ClusterMerge, Merged]:
        """With the next items of each node, maybe none; and the transactions that are final now.

        Nothing is taken from the first heartbeat on that is on so many nodes as ``counts`` has. Of
        the nodes ``ended`` nothing more comes, and they hold back nothing before that heartbeat.
        Raises MergeDisorder, MergeXaBroken, MergeBranchMissing, MergeHeartbeatIncomplete.
        """
        names = self.names
        stepped = [
            node.step(given, name) if len(given) else (node, given[:0])
            for node, given, name in zip(self.nodes, items, names, strict=True)
        ]
        ended = [n for n in ended if stepped[n][0].oldest_open is None]
        for n in ended:
            node, ready = stepped[n]
            last, rest = node.ended()
            stepped[n] = last, np.concatenate([ready, rest]) if len(ready) else rest
        nodes = tuple(node for node, _ in stepped)
        waiting = [
            np.concatenate([old, new]) if len(old) and len(new) else (new if len(new) else old)
            for old, (_, new) in zip(self.ready, stepped, strict=True)
        ]
        horizon = min(node.floor for node in nodes)
        if counts:
            change = replace(self, nodes=nodes, ready=tuple(waiting)).change(counts)
            if change is not None:
                floors = [node.floor for n, node in enumerate(nodes) if n not in ended]
                horizon = min(change[0], *floors)
        rows = np.ascontiguousarray(np.concatenate(waiting))
        ends = np.cumsum([len(w) for w in waiting], dtype=np.int64)
        begins = ends - np.array([len(w) for w in waiting], np.int64)
        at = begins.copy()
        state = self.state.copy()
        order, firsts = np.empty(len(rows), np.int64), np.empty(len(rows), np.int8)
        heap = np.empty(len(nodes), np.int64)
        code, row = N.merge_nodes(state, rows, at, ends, horizon, heap, order, firsts)
        if code != N.DONE:
            raise _error(code, rows, ends, int(row), names)
        taken = order[: state[N.TAKEN]]
        chosen = rows[taken]
        merged = Merged(
            np.searchsorted(ends, taken, "right").astype(np.int64),
            chosen[:, K.Q_NUMBER],
            chosen[:, K.Q_TSO],
            chosen[:, K.Q_TXN],
            chosen[:, K.Q_SEQ],
            chosen[:, K.Q_FLAGS],
            firsts[: len(taken)] == 1,
            int(state[N.HORIZON]),
        )
        left = tuple(rows[a:b].copy() for a, b in zip(at.tolist(), ends.tolist(), strict=True))
        return replace(self, nodes=nodes, ready=left, state=state), merged


def _without(values: tuple[_T, ...], at: int) -> tuple[_T, ...]:
    return (*values[:at], *values[at + 1 :])


def _error(code: int, rows: Table, ends: Table, row: int, names: Sequence[str]) -> Exception:
    tso, transaction = int(rows[row, K.Q_TSO]), int(rows[row, K.Q_TXN])
    same = (rows[:, K.Q_TSO] == tso) & (rows[:, K.Q_TXN] == transaction) & (rows[:, K.Q_SEQ] == 0)
    branches = np.flatnonzero(same)
    on = [names[n] for n in np.searchsorted(ends, branches, "right").tolist()]
    where = f"vTSO {VTso(tso, transaction)}"
    what = f"transaction {transaction:x}"
    if code == N.HEARTBEAT_INCOMPLETE:
        missing = [n for n in names if n not in on]
        text = (
            f"not on {', '.join(missing)}" if missing else f"{len(on)} branches on {', '.join(on)}"
        )
        return MergeHeartbeatIncomplete(
            f"heartbeat {transaction:x} is not once on each node: {text}",
            object="cluster",
            position=where,
            hint="the upstream's nodes must be those that the coordinator writes to",
        )
    if code in (N.BRANCH_MISSING, N.BRANCHES_DIFFER):
        said = sorted({int(n) for n in rows[branches, K.Q_BRANCHES]})
        return MergeBranchMissing(
            f"{what} has {len(on)} branches (on {', '.join(on)}), and says it has "
            f"{' and '.join(map(str, said))}",
            object="cluster",
            position=where,
            hint="a node is not in the upstream, or has lost a transaction",
        )
    return MergeGoesBack(f"{what} comes behind a later one", object="cluster", position=where)
