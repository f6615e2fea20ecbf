"""What a coordination store must do; etcd's semantics in the small.

Keys are text, values bytes. Every successful transaction gets the next **revision**; a key
remembers the revision that created it and the one that last changed it. Owner, processor and
API know only this contract (design, decision 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cdc.base.errors import DefiniteError, FencedError, InternalError, TransientError

MAX_OPS = 120
"""Operations, and compares, of a transaction that every store takes; etcd's limit is 128."""


class LeaseExpired(FencedError):
    """The lease is gone: whoever held it has been taken for dead."""

    code = "TG:ErrLeaseExpired"


class StoreFailed(TransientError):
    """The store could not write; nothing has changed, and the same may succeed later.

    Where a store cannot know that (``StoreUncertain``), it says so: look before the same is said
    again, unless saying it twice does no harm.
    """

    code = "TG:ErrStoreFailed"


class WatchCompacted(DefiniteError):
    """The events asked for are no longer kept: read the prefix again and watch from there."""

    code = "TG:ErrWatchCompacted"


class StoreTxnTooLarge(DefiniteError):
    """A transaction is larger than a store takes."""

    code = "TG:ErrStoreTxnTooLarge"


class StoreTxnInvalid(InternalError):
    """A transaction changes a key twice."""

    code = "TG:ErrStoreTxnInvalid"


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One key at one moment; ``lease`` is 0 if the key is bound to none."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Holds if the key was last changed by ``mod_revision``; 0: if the key does not exist."""

    key: str
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Held:
    """Holds if the key exists and was created by ``create_revision`` (the fencing token).

    0 is the token of nobody, and never holds.
    """

    key: str
    create_revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key. ``lease`` other than 0: the key goes when that lease ends."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key; nothing happens if there is none."""

    key: str


Compare = Unchanged | Held
Op = Put | Delete


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """A key changed at ``revision``; ``value`` is None if it was deleted."""

    key: str
    value: bytes | None
    revision: int


def check_txn(compares: Sequence[Compare], ops: Sequence[Op]) -> None:
    """What every store refuses: too much at once, and a key that is changed twice."""
    if max(len(compares), len(ops)) > MAX_OPS:
        raise StoreTxnTooLarge(
            f"{len(compares)} compares and {len(ops)} operations, where {MAX_OPS} are possible",
            object="store",
        )
    keys = [op.key for op in ops]
    if len(set(keys)) < len(keys):
        raise StoreTxnInvalid("a transaction changes a key twice", object=max(keys, key=keys.count))


class Watch(Protocol):
    """Events of one prefix in order of revision; used by one thread, closed by any."""

    def next(self, timeout_s: float | None = None) -> list[KeyEvent]:
        """Events since the last call, waiting up to ``timeout_s`` for the first.

        Empty after a timeout, or once closed. Raises :class:`WatchCompacted`.
        """

    def close(self) -> None:
        """Wakes and ends a waiting ``next``."""


class Store(Protocol):
    """A small, linearisable, watchable key-value store with leases."""

    def get(self, key: str) -> StoredKey | None:
        """The key now."""

    def range(self, prefix: str) -> tuple[int, list[StoredKey]]:
        """(revision, entries by key) of all keys that start with ``prefix``, at one moment."""

    def revision(self) -> int:
        """The revision of the last transaction."""

    def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, durable: bool = True) -> bool:
        """Apply all ``ops`` if all ``compares`` hold; otherwise change nothing, return False.

        At most ``MAX_OPS`` of each, and each key at most once among the ops (``check_txn``).
        ``durable=False`` may lose the change with the machine's power, never with the process:
        for progress, which is derived from the sink's ledger again. Raises
        :class:`LeaseExpired` if a put names a lease that is gone, :class:`StoreFailed`.
        """

    def watch(self, prefix: str, from_revision: int) -> Watch:
        """Events of ``prefix`` from ``from_revision`` (inclusive) on."""

    def grant(self, ttl_s: float) -> int:
        """A new lease (id > 0): it ends some time after ``ttl_s`` without a keep-alive, not before.

        A store that was stopped itself, with its whole process or by its disk, first gives the
        holder the chance to prolong it.
        """

    def keepalive(self, lease: int, timeout_s: float | None = None) -> None:
        """Prolong a lease; raises :class:`LeaseExpired`, and StoreFailed after ``timeout_s``."""

    def revoke(self, lease: int) -> None:
        """End a lease now and delete its keys; nothing happens if it has ended."""

    def close(self) -> None:
        """Release everything; watches end."""
