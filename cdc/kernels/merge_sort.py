"""Sorting the transactions of one node of a cluster by virtual TSO, holes kept open.

Items come in binlog order: a transaction is prepared, committed or rolled back, or is local (both
at once). What stands between a prepare and its end is a hole; an open one at the head holds back
everything behind it. What is popped from the head raises a floor that no later transaction can go
below, so everything below the floor is in its final order.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, small

I64 = types.int64
VECTOR = types.int64[::1]
MATRIX = types.int64[:, ::1]
_READ_MATRIX = types.Array(types.int64, 2, "C", readonly=True)

# --- items -------------------------------------------------------------------------------------
NUMBER: Final = 0  # place in the node's log; rises
KIND: Final = 1
KEY: Final = 2  # the log's number of the xid; of an xid in use there is one
TSO: Final = 3  # commit TSO of a COMMITTED, 0 if it has none
TXN: Final = 4  # id of the distributed transaction, with TSO
FLAGS: Final = 5
BRANCHES: Final = 6  # branches that the transaction has on all nodes, 0 if nobody said
ITEM_SIZE: Final = 7

PREPARED: Final = 1
COMMITTED: Final = 2
ROLLED_BACK: Final = 3
LOCAL: Final = 4

HEARTBEAT: Final = 1  # flag

# --- state -------------------------------------------------------------------------------------
MAX_TSO: Final = 0  # the largest (TSO, transaction) committed so far, and locals since
MAX_TXN: Final = 1
MAX_SEQ: Final = 2
FLOOR: Final = 3  # the largest TSO that was popped
LOCAL_TSO: Final = 4  # the largest local transaction that was popped
LOCAL_TXN: Final = 5
REPLAYED: Final = 6  # a commit up to this number may belong to a prepare before the first item
PENDING: Final = 7  # rows of pending
QUEUED: Final = 8  # rows of queue
READY: Final = 9  # rows written to ready
LAST: Final = 10  # number of the last item
ANEW_BELOW: Final = 11  # a commit with a lower TSO may, too, as it was returned before
STATE_SIZE: Final = 12

# --- pending: items from the head on -----------------------------------------------------------
P_NUMBER: Final = 0
P_KEY: Final = 1  # of an open prepare, else -1
P_TSO: Final = 2  # what popping it raises the floor to; -1: nothing
P_TXN: Final = 3  # of a local one, else -1
P_MAX_TSO: Final = 4  # MAX_* before it
P_MAX_TXN: Final = 5
P_MAX_SEQ: Final = 6
PENDING_SIZE: Final = 7

# --- queue and ready: committed transactions ---------------------------------------------------
Q_TSO: Final = 0
Q_TXN: Final = 1
Q_SEQ: Final = 2
Q_NUMBER: Final = 3  # of its commit
Q_FLAGS: Final = 4
Q_BRANCHES: Final = 5
Q_FROM: Final = 6  # number of its first item
Q_MAX_TSO: Final = 7  # MAX_* before its first item
Q_MAX_TXN: Final = 8
Q_MAX_SEQ: Final = 9
QUEUE_SIZE: Final = 10

# --- results -----------------------------------------------------------------------------------
DONE: Final = -1
NEVER_PREPARED: Final = 1
DISORDER: Final = 2
NOT_RISING: Final = 3

_MIX = -7046029254386353131  # 2**64 / golden ratio, as int64


@small
def _slot(keys, key):  # type: ignore[no-untyped-def]
    # Keys are >= 0; 0 is a free place, so they are stored plus 1, and -1 is one that was freed.
    mask = keys.size - 1
    at = (np.int64(np.uint64(key * np.int64(_MIX)) >> np.uint64(32))) & mask
    while keys[at] != 0 and keys[at] != key + 1:
        at = (at + 1) & mask
    return at


@small
def _before(queue, a, b):  # type: ignore[no-untyped-def]
    for c in (Q_TSO, Q_TXN, Q_SEQ):
        if queue[a, c] != queue[b, c]:
            return queue[a, c] < queue[b, c]
    return queue[a, Q_NUMBER] < queue[b, Q_NUMBER]


@small
def _push(heap, size, queue, row):  # type: ignore[no-untyped-def]
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if not _before(queue, row, heap[up]):
            break
        heap[at] = heap[up]
        at = up
    heap[at] = row


@small
def _pop(heap, size, queue):  # type: ignore[no-untyped-def]
    row = heap[size - 1]
    size -= 1
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and _before(queue, heap[down + 1], heap[down]):
            down += 1
        if not _before(queue, heap[down], row):
            break
        heap[at] = heap[down]
        at = down
    heap[at] = row
    return size


@kernel(
    types.UniTuple(I64, 2)(
        VECTOR, _READ_MATRIX, MATRIX, MATRIX, MATRIX, VECTOR, VECTOR, VECTOR, types.boolean
    )
)
def sort_node(state, items, pending, queue, ready, heap, keys, rows, stop_at_disorder):  # type: ignore[no-untyped-def]
    """Take the items; (DONE, 0), or what is wrong and with which item.

    ``pending`` and ``queue`` begin with the rows that ``state`` counts and have room for
    ``len(items)`` more, ``ready`` for all of the queue. ``heap`` is as long as the queue, ``keys``
    (zeros; its length a power of two, at least twice the pending rows) and ``rows`` are a table
    from keys to rows of ``pending``. What is popped or ready is taken out of both at the end.
    """
    head = 0
    tail = state[PENDING]
    queued = state[QUEUED]
    waiting = 0
    for r in range(queued):
        _push(heap, waiting, queue, r)
        waiting += 1
    for r in range(tail):
        if pending[r, P_KEY] >= 0:
            at = _slot(keys, pending[r, P_KEY])
            keys[at] = pending[r, P_KEY] + 1
            rows[at] = r
    mtso, mtxn, mseq = state[MAX_TSO], state[MAX_TXN], state[MAX_SEQ]
    floor, ltso, ltxn = state[FLOOR], state[LOCAL_TSO], state[LOCAL_TXN]
    last = state[LAST]
    for i in range(items.shape[0]):
        number, kind, key = items[i, NUMBER], items[i, KIND], items[i, KEY]
        tso, txn = items[i, TSO], items[i, TXN]
        if number <= last:
            return NOT_RISING, i
        last = number
        first, first_tso, first_txn, first_seq = number, mtso, mtxn, mseq
        pending[tail, P_NUMBER] = number
        pending[tail, P_KEY] = -1
        pending[tail, P_TSO] = -1
        pending[tail, P_TXN] = -1
        pending[tail, P_MAX_TSO] = mtso
        pending[tail, P_MAX_TXN] = mtxn
        pending[tail, P_MAX_SEQ] = mseq
        known = True
        if kind == PREPARED:
            at = _slot(keys, key)
            if keys[at] != 0 and rows[at] >= 0:
                # No server has two of one xid: it has lost the one before, which holds nobody back.
                pending[rows[at], P_KEY] = -1
            keys[at] = key + 1
            rows[at] = tail
            pending[tail, P_KEY] = key
        elif kind != LOCAL:
            at = _slot(keys, key)
            known = keys[at] != 0 and rows[at] >= 0
            if known:
                p = rows[at]
                rows[at] = -1
                pending[p, P_KEY] = -1
                first, first_tso = pending[p, P_NUMBER], pending[p, P_MAX_TSO]
                first_txn, first_seq = pending[p, P_MAX_TXN], pending[p, P_MAX_SEQ]
            elif kind == COMMITTED and number > state[REPLAYED] and not 0 < tso < state[ANEW_BELOW]:
                return NEVER_PREPARED, i
        if kind in (LOCAL, COMMITTED):
            if kind == COMMITTED and tso > 0:
                if known and (tso < floor or (tso == ltso and txn <= ltxn)) and stop_at_disorder:
                    return DISORDER, i
                if tso > mtso or (tso == mtso and txn > mtxn):
                    mtso, mtxn, mseq = tso, txn, 0
                qtso, qtxn, qseq = tso, txn, 0
                pending[tail, P_TSO] = tso
            else:
                mseq += 1
                qtso, qtxn, qseq = mtso, mtxn, mseq
                pending[tail, P_TSO] = mtso
                pending[tail, P_TXN] = mtxn
            if known:
                queue[queued, Q_TSO] = qtso
                queue[queued, Q_TXN] = qtxn
                queue[queued, Q_SEQ] = qseq
                queue[queued, Q_NUMBER] = number
                queue[queued, Q_FLAGS] = items[i, FLAGS]
                queue[queued, Q_BRANCHES] = items[i, BRANCHES] if qseq == 0 else 0
                queue[queued, Q_FROM] = first
                queue[queued, Q_MAX_TSO] = first_tso
                queue[queued, Q_MAX_TXN] = first_txn
                queue[queued, Q_MAX_SEQ] = first_seq
                _push(heap, waiting, queue, queued)
                queued += 1
                waiting += 1
        tail += 1
        while head < tail and pending[head, P_KEY] < 0:
            floor = max(floor, pending[head, P_TSO])
            if pending[head, P_TXN] >= 0 and pending[head, P_TSO] >= ltso:
                if pending[head, P_TSO] > ltso:
                    ltxn = -1
                ltso = pending[head, P_TSO]
                ltxn = max(ltxn, pending[head, P_TXN])
            head += 1
    # What is below the floor, in order.
    done = 0
    while waiting > 0 and queue[heap[0], Q_TSO] < floor:
        top = heap[0]
        for c in range(QUEUE_SIZE):
            ready[done, c] = queue[top, c]
        done += 1
        queue[top, Q_NUMBER] = -1
        waiting = _pop(heap, waiting, queue)
    kept = 0
    for r in range(queued):
        if queue[r, Q_NUMBER] != -1:
            if kept != r:
                for c in range(QUEUE_SIZE):
                    queue[kept, c] = queue[r, c]
            kept += 1
    if head > 0:
        for r in range(head, tail):
            for c in range(PENDING_SIZE):
                pending[r - head, c] = pending[r, c]
    state[MAX_TSO], state[MAX_TXN], state[MAX_SEQ] = mtso, mtxn, mseq
    state[FLOOR], state[LOCAL_TSO], state[LOCAL_TXN] = floor, ltso, ltxn
    state[PENDING], state[QUEUED], state[READY] = tail - head, kept, done
    state[LAST] = last
    return DONE, 0
