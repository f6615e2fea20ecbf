"""Puts of many threads in few transactions, as a database's log groups commits.

Who comes while a transaction is on its way waits for the next one, which takes all that have come
meanwhile. At a heartbeat of an upstream each of its changefeeds has something to say: a thousand
transactions become some ten.
"""

from __future__ import annotations

import threading

from cdc.coord.contract import MAX_OPS, Put, Store


class _Group:
    """Values that go together, and what became of them."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.over = False
        self.error: Exception | None = None


class GroupedPuts:
    """Puts without compares, which may be lost with the machine's power."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._writing = False
        self._group = _Group()

    def put(self, key: str, value: bytes) -> None:
        """Returns when the store has it. Raises what the store raises of its transaction."""
        with self._changed:
            group = self._group
            group.values[key] = value
            while self._writing and not group.over:
                self._changed.wait()
            if not group.over:
                self._writing, self._group = True, _Group()
        if not group.over:
            self._write(group)
        if group.error is not None:
            raise group.error

    def _write(self, group: _Group) -> None:
        try:
            puts = [Put(key, value) for key, value in group.values.items()]
            for first in range(0, len(puts), MAX_OPS):
                self._store.txn([], puts[first : first + MAX_OPS], durable=False)
        except Exception as e:
            group.error = e
        finally:
            with self._changed:
                group.over, self._writing = True, False
                self._changed.notify_all()
