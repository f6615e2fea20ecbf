"""The order of one node's transactions: by virtual TSO, as far as open holes let it be final."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.vtso import VTso
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.errors import MergeDisorder, MergeXaBroken

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NodeStand:
    """From where a node is read again, and the largest virtual TSO before that place.

    ``number``: the first item to give again. ``seen``: the last that was given before; a commit up
    to it may belong to a prepare that lies before ``number``, and is done with.
    """

    number: int = 0
    max_tso: int = 0
    max_transaction: int = 0
    max_sequence: int = 0
    seen: int = 0

    def to_list(self) -> list[int]:
        """As JSON has it."""
        return [self.number, self.max_tso, self.max_transaction, self.max_sequence, self.seen]

    @classmethod
    def of(cls, value: list[Any]) -> NodeStand:
        """Inverse of ``to_list``."""
        return cls(*map(int, value))


@dataclass(frozen=True, slots=True, eq=False)
class NodeSort:
    """One node between two steps: what is open, what is committed and not final, how far it is."""

    state: NDArray[np.int64]
    pending: Table
    queue: Table

    @classmethod
    def begin(cls, stand: NodeStand, anew_below: int = 0) -> NodeSort:
        """As it was at ``stand``; the first item must be ``stand.number`` or a later one.

        ``anew_below``: as that of ``ClusterStand``.
        """
        state = np.zeros(K.STATE_SIZE, np.int64)
        state[K.MAX_TSO] = stand.max_tso
        state[K.MAX_TXN] = stand.max_transaction
        state[K.MAX_SEQ] = stand.max_sequence
        state[K.REPLAYED] = stand.seen
        state[K.ANEW_BELOW] = anew_below
        state[K.LOCAL_TSO] = state[K.LOCAL_TXN] = -1
        state[K.LAST] = stand.number - 1
        empty = np.empty((0, K.PENDING_SIZE), np.int64)
        return cls(state, empty, np.empty((0, K.QUEUE_SIZE), np.int64))

    @property
    def floor(self) -> int:
        """Everything of this node with a lower TSO is final and was returned."""
        return int(self.state[K.FLOOR])

    @property
    def last(self) -> int:
        """Number of the last item that was given."""
        return int(self.state[K.LAST])

    @property
    def oldest_open(self) -> int | None:
        """Number of the prepare that holds back everything behind it, if there is one."""
        return int(self.pending[0, K.P_NUMBER]) if len(self.pending) else None

    @property
    def waiting(self) -> int:
        """How many committed transactions are not final yet."""
        return len(self.queue)

    def ended(self) -> tuple[NodeSort, Table]:
        """Where no more items come and no prepare is open: what was not final yet is, sorted."""
        rows = self.queue[np.lexsort(self.queue[:, [K.Q_SEQ, K.Q_TXN, K.Q_TSO]].T)]
        return NodeSort(self.state, self.pending, self.queue[:0]), rows

    def stand(self, ready: Table) -> NodeStand:
        """Where to read from again if ``ready``, returned before, is to come once more."""
        tso, transaction, sequence = map(int, self.state[[K.MAX_TSO, K.MAX_TXN, K.MAX_SEQ]])
        first = self.last + 1, tso, transaction, sequence
        if len(self.pending):
            first = min(first, _place(self.pending[0], K.P_NUMBER, K.P_MAX_TSO))
        for rows in (self.queue, ready):
            if len(rows):
                oldest = rows[int(np.argmin(rows[:, K.Q_FROM]))]
                first = min(first, _place(oldest, K.Q_FROM, K.Q_MAX_TSO))
        # One that was restored has not seen again yet what it knew before.
        number, tso, transaction, sequence = first
        return NodeStand(
            number, tso, transaction, sequence, seen=max(self.last, int(self.state[K.REPLAYED]))
        )

    def step(self, items: Table, name: str) -> tuple[NodeSort, Table]:
        """With these items, in binlog order; and the transactions that are final now, sorted.

        Raises MergeDisorder, MergeXaBroken; ``name`` is the node's.
        """
        count = len(items)
        state = self.state.copy()
        pending = np.empty((len(self.pending) + count, K.PENDING_SIZE), np.int64)
        pending[: len(self.pending)] = self.pending
        queue = np.empty((len(self.queue) + count, K.QUEUE_SIZE), np.int64)
        queue[: len(self.queue)] = self.queue
        ready = np.empty_like(queue)
        slots = 1 << (2 * len(pending) + 1).bit_length()
        heap, keys, rows = (np.zeros(n, np.int64) for n in (len(queue), slots, slots))
        code, at = K.sort_node(state, items, pending, queue, ready, heap, keys, rows, True)
        if code != K.DONE:
            raise _error(code, items[at], self, name)
        # Copies where much was taken, so that a long wait does not keep what is done with.
        left = NodeSort(state, pending[: state[K.PENDING]].copy(), queue[: state[K.QUEUED]].copy())
        return left, ready[: state[K.READY]]


def _place(row: NDArray[np.int64], number: int, maximum: int) -> tuple[int, int, int, int]:
    a, b, c = (int(v) for v in row[maximum : maximum + 3])
    return int(row[number]), a, b, c


def _error(code: int, item: NDArray[np.int64], before: NodeSort, name: str) -> Exception:
    place = f"item {item[K.NUMBER]}"
    what = f"transaction {item[K.TXN]:x}"
    if code == K.DISORDER:
        return MergeDisorder(
            f"{what} has TSO {VTso(int(item[K.TSO]), int(item[K.TXN])).tso}, but was prepared "
            f"behind the commit of a later one (at least {before.floor})",
            object=f"node {name}",
            position=place,
            hint="the coordinator must ask for the commit TSO after the last PREPARE",
        )
    if code == K.NEVER_PREPARED:
        text = "an XA transaction is committed that the log has not prepared"
    else:
        text = "items do not rise"
    return MergeXaBroken(
        text,
        object=f"node {name}",
        position=place,
        hint="create the upstream anew while XA RECOVER shows nothing on this node",
    )
