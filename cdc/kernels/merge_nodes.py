"""Merging the sorted transactions of a cluster's nodes, and gluing the branches of each.

Rows are those of :mod:`cdc.kernels.merge_sort`. Every node is complete below the horizon, so a
transaction that is taken has all its branches here, next to each other; they are counted.
"""

from __future__ import annotations

from typing import Final

from numba import types

from cdc.kernels.compile import kernel, small
from cdc.kernels.merge_sort import HEARTBEAT, Q_BRANCHES, Q_FLAGS, Q_SEQ, Q_TSO, Q_TXN

I64 = types.int64
VECTOR = types.int64[::1]
MATRIX = types.int64[:, ::1]

# --- state -------------------------------------------------------------------------------------
HORIZON: Final = 0  # everything below it was taken
# TSO of the first heartbeat of all nodes, 0 until then: what is before it may lack branches
ALIGNED: Final = 1
LAST_TSO: Final = 2  # of the last row that was taken
LAST_TXN: Final = 3
LAST_SEQ: Final = 4
LAST_NODE: Final = 5
TAKEN: Final = 6  # rows written to order and firsts
SKIP: Final = 7  # everything below it was taken before the state was restored
STATE_SIZE: Final = 8

# --- results -----------------------------------------------------------------------------------
DONE: Final = -1
BRANCH_MISSING: Final = 1
BRANCHES_DIFFER: Final = 2
HEARTBEAT_INCOMPLETE: Final = 3
GOES_BACK: Final = 4


@small
def _before(ready, at, a, b):  # type: ignore[no-untyped-def]
    for c in (Q_TSO, Q_TXN, Q_SEQ):
        x, y = ready[at[a], c], ready[at[b], c]
        if x != y:
            return x < y
    return a < b


@small
def _sift(ready, at, heap, size, hole, node):  # type: ignore[no-untyped-def]
    while True:
        down = 2 * hole + 1
        if down >= size:
            break
        if down + 1 < size and _before(ready, at, heap[down + 1], heap[down]):
            down += 1
        if not _before(ready, at, heap[down], node):
            break
        heap[hole] = heap[down]
        hole = down
    heap[hole] = node


@kernel(
    types.UniTuple(I64, 2)(VECTOR, MATRIX, VECTOR, VECTOR, I64, VECTOR, VECTOR, types.int8[::1])
)
def merge_nodes(state, ready, at, ends, horizon, heap, order, firsts):  # type: ignore[no-untyped-def]
    """Take all rows below ``horizon`` in order; (DONE, 0), or what is wrong and a row of it.

    Node n's rows are ``ready[at[n]:ends[n]]``, sorted; ``at`` is moved behind what was taken.
    ``order`` (with room for all rows) gets the rows, ``firsts`` 1 where a transaction begins.
    Rows that were taken before are passed over, and so is what comes before the first heartbeat
    of all nodes, and that.
    """
    nodes = at.size
    size = 0
    for n in range(nodes):
        while at[n] < ends[n] and ready[at[n], Q_TSO] < state[SKIP]:
            at[n] += 1
        if at[n] < ends[n] and ready[at[n], Q_TSO] < state[HORIZON]:
            return GOES_BACK, at[n]
        if at[n] < ends[n] and ready[at[n], Q_TSO] < horizon:
            heap[size] = n
            size += 1
    for hole in range(size - 1, -1, -1):
        _sift(ready, at, heap, size, hole, heap[hole])
    aligned = state[ALIGNED] != 0
    begun = state[ALIGNED]
    ltso, ltxn, lseq, lnode = state[LAST_TSO], state[LAST_TXN], state[LAST_SEQ], state[LAST_NODE]
    taken = 0
    while size > 0:
        # One transaction: all rows with its TSO and id.
        begin = taken
        row = at[heap[0]]
        tso, txn, seq = ready[row, Q_TSO], ready[row, Q_TXN], ready[row, Q_SEQ]
        expected, beats, others = ready[row, Q_BRANCHES], 0, 0
        while True:
            node = heap[0]
            row = at[node]
            if taken > begin and (
                seq > 0 or ready[row, Q_TSO] != tso or ready[row, Q_TXN] != txn or ready[row, Q_SEQ]
            ):
                break
            rising = tso > ltso
            if tso == ltso:
                rising = txn > ltxn
                if txn == ltxn:
                    # Branches of one transaction are equal up to the node, locals differ before it.
                    rising = seq > lseq or (
                        seq == lseq and (node > lnode or (seq == 0 == lnode - node))
                    )
            if not rising:
                return GOES_BACK, row
            if node != lnode or taken == begin:
                others += 1
            ltso, ltxn, lseq, lnode = tso, txn, seq, node
            if ready[row, Q_FLAGS] & HEARTBEAT:
                beats += 1
            if aligned and ready[row, Q_BRANCHES] != expected:
                return BRANCHES_DIFFER, row
            order[taken] = row
            firsts[taken] = 1 if taken == begin else 0
            taken += 1
            at[node] += 1
            if at[node] < ends[node] and ready[at[node], Q_TSO] < horizon:
                _sift(ready, at, heap, size, 0, node)
            else:
                size -= 1
                if size > 0:
                    _sift(ready, at, heap, size, 0, heap[size])
                else:
                    break
        branches = taken - begin
        whole = beats == nodes and branches == nodes and others == nodes
        if not aligned:
            aligned = whole
            if whole:
                begun = tso
            taken = begin
            continue
        if beats > 0 and not whole:
            return HEARTBEAT_INCOMPLETE, order[begin]
        if seq == 0 and expected > 0 and branches != expected:
            return BRANCH_MISSING, order[begin]
    state[ALIGNED] = begun
    state[HORIZON] = max(state[HORIZON], horizon)
    state[LAST_TSO], state[LAST_TXN], state[LAST_SEQ] = ltso, ltxn, lseq
    state[LAST_NODE] = lnode
    state[TAKEN] = taken
    return DONE, 0
