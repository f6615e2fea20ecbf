"""A store whose calls are timed and whose failures are counted, whichever store it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cdc.base import measures
from cdc.base.clock import Clock
from cdc.coord.contract import Compare, Op, Store, StoredKey, StoreFailed, Watch


class MeasuredStore:
    """Passes every call on (``cdc.coord.contract.Store``)."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def get(self, key: str) -> StoredKey | None:
        """As the contract has it."""
        with self._timed("get"):
            return self._store.get(key)

    def range(self, prefix: str) -> tuple[int, list[StoredKey]]:
        """As the contract has it."""
        with self._timed("range"):
            return self._store.range(prefix)

    def revision(self) -> int:
        """As the contract has it."""
        with self._timed("revision"):
            return self._store.revision()

    def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, durable: bool = True) -> bool:
        """As the contract has it; durable ones are timed apart, as they wait for the disk."""
        with self._timed("txn" if durable else "progress_txn"):
            return self._store.txn(compares, ops, durable=durable)

    def watch(self, prefix: str, from_revision: int) -> Watch:
        """As the contract has it. How long a watch waits says nothing."""
        return self._store.watch(prefix, from_revision)

    def grant(self, ttl_s: float) -> int:
        """As the contract has it."""
        with self._timed("grant"):
            return self._store.grant(ttl_s)

    def keepalive(self, lease: int, timeout_s: float | None = None) -> None:
        """As the contract has it."""
        with self._timed("keepalive"):
            self._store.keepalive(lease, timeout_s)

    def revoke(self, lease: int) -> None:
        """As the contract has it."""
        with self._timed("revoke"):
            self._store.revoke(lease)

    def close(self) -> None:
        """As the contract has it."""
        self._store.close()

    @contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        began = self._clock.monotonic()
        try:
            yield
        except StoreFailed:
            measures.STORE_FAILURES.labels(operation).inc()
            raise
        finally:
            took = self._clock.monotonic() - began
            measures.STORE_SECONDS.labels(operation).observe(took)
