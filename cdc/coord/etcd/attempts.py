"""Transactions that may be sent again, whatever became of the first attempt.

A transaction whose answer is lost may have been carried out, may be so later, or never. So each
leaves a mark in its own writes: a key of the client's, whose value is the number of the transaction
and its outcome. An attempt does nothing where the mark says that this transaction, or a later one
of the same mark, is over. A mark serves one transaction at a time.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from etcd3 import etcdrpc

from cdc.coord.contract import Compare, Delete, Held, Op

_NUMBER = b"%020d"
_DONE, _REFUSED = b"+", b"-"


@dataclass
class Mark:
    """``made``: its key was there. ``uncertain``: an attempt may still be on its way."""

    key: bytes
    made: bool = False
    uncertain: bool = False


class Marks:
    """Keys of marks below ``prefix``; as many as there were transactions at a time."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._free: list[Mark] = []
        self._count = 0
        self._numbers = itertools.count(1)

    @contextmanager
    def take(self) -> Iterator[tuple[Mark, bytes]]:
        """A mark, and the number of a transaction, larger than all before."""
        with self._lock:
            if self._free:
                mark = self._free.pop()
            else:
                mark = Mark(f"{self._prefix}{self._count}".encode())
                self._count += 1
            number = _NUMBER % next(self._numbers)
        try:
            yield mark, number
        finally:
            with self._lock:
                self._free.append(mark)


def make_mark(mark: Mark, lease: int) -> etcdrpc.TxnRequest:
    """The request that makes a mark's key, where there is none."""
    absent = etcdrpc.Compare(
        result=etcdrpc.Compare.EQUAL, target=etcdrpc.Compare.VERSION, key=mark.key, version=0
    )
    return etcdrpc.TxnRequest(compare=[absent], success=[_put(mark, _NUMBER % 0, _REFUSED, lease)])


def attempt(
    compares: Sequence[object], ops: Sequence[object], mark: Mark, number: bytes, lease: int
) -> etcdrpc.TxnRequest:
    """The request of one attempt, of etcd's compares and operations.

    Once there was an attempt whose fate is not known, a refusal is marked as well: that one
    must not find the compares true later. The operations stand at the top, as etcd's quota does not
    look into transactions of transactions.
    """
    before = etcdrpc.Compare(
        result=etcdrpc.Compare.LESS, target=etcdrpc.Compare.VALUE, key=mark.key, value=number
    )
    look = etcdrpc.RequestOp(request_range=etcdrpc.RangeRequest(key=mark.key))
    if mark.uncertain:
        refused = etcdrpc.TxnRequest(
            compare=[before], success=[_put(mark, number, _REFUSED, lease)], failure=[look]
        )
        look = etcdrpc.RequestOp(request_txn=refused)
    return etcdrpc.TxnRequest(
        compare=[*compares, before],
        success=[*ops, _put(mark, number, _DONE, lease)],
        failure=[look],
    )


def _put(mark: Mark, number: bytes, outcome: bytes, lease: int) -> etcdrpc.RequestOp:
    put = etcdrpc.PutRequest(key=mark.key, value=number + outcome, lease=lease)
    return etcdrpc.RequestOp(request_put=put)


def outcome(answer: etcdrpc.TxnResponse, number: bytes) -> bool | None:
    """Whether the compares held, in this attempt or in the one that was carried out.

    None: the mark is gone with its lease, so nothing was done.
    """
    if answer.succeeded:
        return True
    (found,) = answer.responses
    if found.HasField("response_txn"):
        if found.response_txn.succeeded:
            return False
        (found,) = found.response_txn.responses
    marks = found.response_range.kvs
    if not marks:
        return None
    return bool(marks[0].value == number + _DONE)


def compare(one: Compare, key: bytes) -> etcdrpc.Compare:
    """etcd's words for a compare; a key that does not exist has revision 0."""
    if isinstance(one, Held) and not one.create_revision:
        # etcd's answer for a key that does not exist would be 0 as well; no version is below it.
        return etcdrpc.Compare(
            result=etcdrpc.Compare.LESS, target=etcdrpc.Compare.VERSION, key=key, version=0
        )
    if isinstance(one, Held):
        return etcdrpc.Compare(
            result=etcdrpc.Compare.EQUAL,
            target=etcdrpc.Compare.CREATE,
            key=key,
            create_revision=one.create_revision,
        )
    return etcdrpc.Compare(
        result=etcdrpc.Compare.EQUAL,
        target=etcdrpc.Compare.MOD,
        key=key,
        mod_revision=one.mod_revision,
    )


def operation(op: Op, key: bytes) -> etcdrpc.RequestOp:
    """etcd's words for a put or a delete."""
    if isinstance(op, Delete):
        return etcdrpc.RequestOp(request_delete_range=etcdrpc.DeleteRangeRequest(key=key))
    return etcdrpc.RequestOp(
        request_put=etcdrpc.PutRequest(key=key, value=op.value, lease=op.lease)
    )
