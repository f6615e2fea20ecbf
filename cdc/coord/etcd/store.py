"""The store of several captures: etcd, spoken to by the generated stubs of the ``etcd3`` client.

That package's own client has calls without deadlines, watches that end at a restart and spin while
nobody answers, and leases whose end it does not see; so only its messages and stubs are used.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import grpc
from etcd3 import etcdrpc

from cdc.coord.contract import (
    Compare,
    LeaseExpired,
    Op,
    Put,
    StoredKey,
    StoreFailed,
    Watch,
    WatchCompacted,
    check_txn,
)
from cdc.coord.etcd.address import EtcdAddress
from cdc.coord.etcd.attempts import Marks, attempt, compare, make_mark, operation, outcome
from cdc.coord.etcd.connection import TIMEOUT_S, EtcdConnection
from cdc.coord.etcd.errors import StoreUncertain, details
from cdc.coord.etcd.watch import EtcdWatch, prefix_end

# Few enough that a page of large values comes within an attempt.
_PAGE = 200
# Marks outlive whoever may still be waiting for an answer, and go when the client is gone.
_MARKS_TTL_S, _MARKS_AGAIN_S, _PROLONG_S = 600, 200.0, 1.0


class EtcdStore:
    """:class:`cdc.coord.contract.Store` on etcd 3.4 and newer.

    All writes are durable. Every call ends within ``timeout_s``, or little more.
    """

    def __init__(self, address: EtcdAddress, timeout_s: float = TIMEOUT_S) -> None:
        self._connection = EtcdConnection(address, timeout_s)
        self._prefix = address.prefix.encode()
        self._marks = Marks(f"{address.prefix}/__tidegate_txn__/{secrets.token_hex(8)}/")
        self._lock = threading.Lock()
        self._marks_lease, self._marks_told_s = 0, 0.0

    def get(self, key: str) -> StoredKey | None:
        found = self._range(etcdrpc.RangeRequest(key=self._key(key))).kvs
        return self._entry(found[0]) if found else None

    def range(self, prefix: str) -> tuple[int, list[StoredKey]]:
        while True:
            # What is compacted between two pages is read anew, as of then.
            with suppress(WatchCompacted):
                return self._pages(prefix)

    def _pages(self, prefix: str) -> tuple[int, list[StoredKey]]:
        start = self._key(prefix)
        end, revision, found = prefix_end(start), 0, list[StoredKey]()
        while True:
            page = self._range(
                etcdrpc.RangeRequest(key=start, range_end=end, limit=_PAGE, revision=revision)
            )
            found += (self._entry(kv) for kv in page.kvs)
            revision = revision or int(page.header.revision)
            if not page.more:
                return revision, found
            start = page.kvs[-1].key + b"\0"

    def revision(self) -> int:
        request = etcdrpc.RangeRequest(key=self._key("/"), limit=1, count_only=True)
        return int(self._range(request).header.revision)

    def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, durable: bool = True) -> bool:
        check_txn(compares, ops)
        theirs = [compare(c, self._key(c.key)) for c in compares]
        wanted = [operation(op, self._key(op.key)) for op in ops]
        while True:
            lease = self._marks_bound_to()
            try:
                held = self._txn(theirs, wanted, lease)
                self._prolong_marks(lease)
                return held
            except LeaseExpired:
                leases = {op.lease for op in ops if isinstance(op, Put) and op.lease}
                if gone := [one for one in leases if not self._lives(one)]:
                    raise _expired(gone[0]) from None
                with self._lock:
                    if self._marks_lease == lease:
                        self._marks_lease = 0

    def _txn(self, compares: Sequence[Any], ops: Sequence[Any], lease: int) -> bool:
        with self._marks.take() as (mark, number):
            unknown = False

            def lost() -> None:
                nonlocal unknown
                unknown = mark.uncertain = True

            def send(channel: Any, timeout_s: float, metadata: Any) -> Any:
                kv = etcdrpc.KVStub(channel)
                while True:
                    if not mark.made:
                        kv.Txn(make_mark(mark, lease), timeout=timeout_s, metadata=metadata)
                        mark.made = True
                    request = attempt(compares, ops, mark, number, lease)
                    answer = kv.Txn(request, timeout=timeout_s, metadata=metadata)
                    held = outcome(answer, number)
                    if held is not None:
                        return held
                    mark.made = False

            try:
                held = self._connection.call(send, before_retry=lost)
            except StoreFailed as e:
                if not unknown or type(e) is not StoreFailed:
                    raise
                raise StoreUncertain(e.message, object=e.object, hint=e.hint) from None
            # Its mark, or that of its refusal, is above all that was sent before.
            mark.uncertain = False
            return bool(held)

    def watch(self, prefix: str, from_revision: int) -> Watch:
        return EtcdWatch(self._connection, len(self._prefix), self._key(prefix), from_revision)

    def grant(self, ttl_s: float) -> int:
        # With an id of ours a second attempt is the same lease.
        lease = secrets.randbits(62) + 1

        def send(channel: Any, timeout_s: float, metadata: Any) -> Any:
            request = etcdrpc.LeaseGrantRequest(TTL=math.ceil(ttl_s), ID=lease)
            stub = etcdrpc.LeaseStub(channel)
            return stub.LeaseGrant(request, timeout=timeout_s, metadata=metadata)

        self._connection.call(_unless(send, "lease already exists"))
        return lease

    def keepalive(self, lease: int, timeout_s: float | None = None) -> None:
        def send(channel: Any, attempt_s: float, metadata: Any) -> Any:
            requests = iter([etcdrpc.LeaseKeepAliveRequest(ID=lease)])
            stub = etcdrpc.LeaseStub(channel)
            stream = stub.LeaseKeepAlive(requests, timeout=attempt_s, metadata=metadata)
            for answer in stream:
                return answer
            raise grpc.RpcError

        if self._connection.call(send, timeout_s=timeout_s).TTL <= 0:
            raise _expired(lease)

    def revoke(self, lease: int) -> None:
        def send(channel: Any, timeout_s: float, metadata: Any) -> Any:
            request = etcdrpc.LeaseRevokeRequest(ID=lease)
            stub = etcdrpc.LeaseStub(channel)
            return stub.LeaseRevoke(request, timeout=timeout_s, metadata=metadata)

        self._connection.call(_unless(send, "lease not found"))

    def close(self) -> None:
        self._connection.close()

    def _lives(self, lease: int) -> bool:
        def send(channel: Any, timeout_s: float, metadata: Any) -> Any:
            request = etcdrpc.LeaseTimeToLiveRequest(ID=lease)
            stub = etcdrpc.LeaseStub(channel)
            return stub.LeaseTimeToLive(request, timeout=timeout_s, metadata=metadata)

        return bool(self._connection.call(send).TTL > 0)

    def _marks_bound_to(self) -> int:
        """The lease of our marks; made now if there is none."""
        if not self._marks_lease:
            made = self.grant(_MARKS_TTL_S)
            with self._lock:
                if not self._marks_lease:
                    self._marks_lease, self._marks_told_s = made, time.monotonic()
        return self._marks_lease

    def _prolong_marks(self, lease: int) -> None:
        """Keep the lease of our marks, where it is time for that and etcd has just answered."""
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._marks_told_s < _MARKS_AGAIN_S:
                return
            self._marks_told_s = now_s
        # A lease that has ended is met by the next transaction.
        with suppress(LeaseExpired, StoreFailed):
            self.keepalive(lease, _PROLONG_S)

    def _range(self, request: Any) -> Any:
        def send(channel: Any, timeout_s: float, metadata: Any) -> Any:
            return etcdrpc.KVStub(channel).Range(request, timeout=timeout_s, metadata=metadata)

        return self._connection.call(send)

    def _key(self, key: str) -> bytes:
        return self._prefix + key.encode()

    def _entry(self, kv: Any) -> StoredKey:
        return StoredKey(
            kv.key[len(self._prefix) :].decode(),
            bytes(kv.value),
            kv.create_revision,
            kv.mod_revision,
            kv.lease,
        )


def _expired(lease: int) -> LeaseExpired:
    return LeaseExpired(f"lease {lease} has ended", object="lease")


def _unless(send: Any, answer: str) -> Any:
    """``send``, where this refusal means that an earlier attempt has had its effect."""

    def tolerant(channel: Any, timeout_s: float, metadata: Any) -> Any:
        try:
            return send(channel, timeout_s, metadata)
        except grpc.RpcError as e:
            if answer in details(e):
                return None
            raise

    return tolerant
