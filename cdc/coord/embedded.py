"""The store of a single capture: SQLite (WAL) below, everything in memory above.

Metadata is O(changefeeds), so reads come from memory and only writes touch the file. The file
has one process at a time (the capture locks its data directory), therefore leases of an earlier
process are dead when it is opened.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cdc.base.clock import Clock
from cdc.coord.contract import (
    Compare,
    Delete,
    Held,
    KeyEvent,
    LeaseExpired,
    Op,
    Put,
    StoredKey,
    StoreFailed,
    WatchCompacted,
    check_txn,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS kv (
  key TEXT PRIMARY KEY, value BLOB NOT NULL,
  create_revision INTEGER NOT NULL, mod_revision INTEGER NOT NULL, lease INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES ('revision', 0), ('lease', 0);
"""
_HISTORY = 8192
# What is said of many schema changes is large, and is said anew with each.
_HISTORY_BYTES = 4 << 20
_AGAIN_S = 0.02
# Behind every key that begins with what stands before it.
_LAST_CHARACTER = "\U0010ffff"


@dataclass(slots=True)
class _Lease:
    """``overdue``: it was seen to be over once, and has the same time again since then.

    A disk that hangs, a stopped process or a paused machine stops the holder with the store, and
    nobody else can have taken its place meanwhile: who is first to look must not end the lease.
    """

    ttl_s: float
    end: float
    overdue: bool = False


class EmbeddedStore:
    """:class:`cdc.coord.contract.Store` in one SQLite file of mode 0600 (it holds URIs).

    A durable transaction is fsynced (``synchronous=FULL``); a progress transaction is written to
    the WAL without fsync, so it survives ``kill -9`` and goes to disk with the next durable one.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
        self._clock = clock
        self._changed = threading.Condition()
        self._closed = False
        self._full: bool | None = None
        # SQLite makes -wal and -shm with the mode of the main file.
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(_SCHEMA)
        meta = dict(self._db.execute("SELECT name, value FROM meta").fetchall())
        self._revision: int = meta["revision"]
        self._last_lease: int = meta["lease"]
        self._entries = {
            row[0]: StoredKey(*row)
            for row in self._db.execute(
                "SELECT key, value, create_revision, mod_revision, lease FROM kv"
            )
        }
        # A range is asked for by each request and each turn, and is mostly a small part of all.
        self._ordered = sorted(self._entries)
        self._leases: dict[int, _Lease] = {}
        self._history: deque[KeyEvent] = deque()
        self._history_bytes = 0
        # Events at or below this revision are not in the history.
        self._forgotten = self._revision
        dead = [Delete(e.key) for e in self._entries.values() if e.lease]
        if dead:
            with self._changed:
                self._apply(dead, durable=True)

    def get(self, key: str) -> StoredKey | None:
        with self._changed:
            self._expire()
            return self._entries.get(key)

    def range(self, prefix: str) -> tuple[int, list[StoredKey]]:
        with self._changed:
            self._expire()
            first = bisect_left(self._ordered, prefix)
            end = bisect_left(self._ordered, prefix + _LAST_CHARACTER, first)
            return self._revision, [self._entries[key] for key in self._ordered[first:end]]

    def revision(self) -> int:
        with self._changed:
            self._expire()
            return self._revision

    def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, durable: bool = True) -> bool:
        check_txn(compares, ops)
        with self._changed:
            self._expire()
            if not all(self._holds(c) for c in compares):
                return False
            for op in ops:
                if isinstance(op, Put) and op.lease and op.lease not in self._leases:
                    raise LeaseExpired("the lease has ended", object=f"lease {op.lease}")
            self._apply(ops, durable=durable)
            return True

    def watch(self, prefix: str, from_revision: int) -> EmbeddedWatch:
        return EmbeddedWatch(self, prefix, from_revision)

    def grant(self, ttl_s: float) -> int:
        with self._changed:
            with _failing():
                number = self._last_lease + 1
                self._db.execute("UPDATE meta SET value = ? WHERE name = 'lease'", (number,))
            self._last_lease = number
            self._leases[number] = _Lease(ttl_s, self._clock.monotonic() + ttl_s)
            self._changed.notify_all()
            return self._last_lease

    def keepalive(self, lease: int, timeout_s: float | None = None) -> None:
        with self._changed:
            # Before anything expires: whoever still prolongs it is alive.
            known = self._leases.get(lease)
            if known is None:
                raise LeaseExpired("the lease has ended", object=f"lease {lease}")
            known.end, known.overdue = self._clock.monotonic() + known.ttl_s, False
            self._expire()

    def revoke(self, lease: int) -> None:
        with self._changed:
            if lease in self._leases:
                self._drop_keys_of({lease})
                del self._leases[lease]

    def close(self) -> None:
        with self._changed:
            if not self._closed:
                self._closed = True
                self._db.close()
                self._changed.notify_all()

    # Everything below is called with the condition held.

    def _holds(self, compare: Compare) -> bool:
        entry = self._entries.get(compare.key)
        if isinstance(compare, Held):
            return entry is not None and entry.create_revision == compare.create_revision
        return (entry.mod_revision if entry else 0) == compare.mod_revision

    def _apply(self, ops: Sequence[Op], *, durable: bool) -> None:
        revision = self._revision + 1
        changed: dict[str, StoredKey | None] = {}
        for op in ops:
            before = changed.get(op.key, self._entries.get(op.key))
            if isinstance(op, Put):
                created = before.create_revision if before else revision
                changed[op.key] = StoredKey(op.key, op.value, created, revision, op.lease)
            elif before is not None:
                changed[op.key] = None
        if not changed:
            return
        self._write(revision, changed, durable)
        self._revision = revision
        for key, entry in changed.items():
            if entry is not None:
                if key not in self._entries:
                    insort(self._ordered, key)
                self._entries[key] = entry
            elif self._entries.pop(key, None) is not None:
                del self._ordered[bisect_left(self._ordered, key)]
            self._remember(KeyEvent(key, entry.value if entry else None, revision))
        self._changed.notify_all()

    def _remember(self, event: KeyEvent) -> None:
        """Keep an event for watches, of the older ones so many and so large together."""
        self._history.append(event)
        self._history_bytes += len(event.value or b"")
        while len(self._history) > _HISTORY or self._history_bytes > _HISTORY_BYTES:
            gone = self._history.popleft()
            self._history_bytes -= len(gone.value or b"")
            self._forgotten = gone.revision

    def _write(self, revision: int, changed: dict[str, StoredKey | None], durable: bool) -> None:
        with _failing():
            if self._full is not durable:
                self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._full = durable
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._write_all(revision, changed)
            except BaseException:
                if self._db.in_transaction:
                    # Its own failure says nothing new; SQLite rolls back when it is next asked.
                    with suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")
                raise

    def _write_all(self, revision: int, changed: dict[str, StoredKey | None]) -> None:
        for key, e in changed.items():
            if e is None:
                self._db.execute("DELETE FROM kv WHERE key = ?", (key,))
            else:
                self._db.execute(
                    "INSERT OR REPLACE INTO kv VALUES (?, ?, ?, ?, ?)",
                    (key, e.value, e.create_revision, e.mod_revision, e.lease),
                )
        self._db.execute("UPDATE meta SET value = ? WHERE name = 'revision'", (revision,))
        self._db.execute("COMMIT")

    def _expire(self) -> None:
        now = self._clock.monotonic()
        gone = set()
        for number, lease in self._leases.items():
            if lease.end <= now and lease.overdue:
                gone.add(number)
            elif lease.end <= now:
                lease.end, lease.overdue = now + lease.ttl_s, True
        if gone:
            # A read must not fail because of it; the next look tries again.
            with suppress(StoreFailed):
                self._drop_keys_of(gone)
                for number in gone:
                    del self._leases[number]

    def _drop_keys_of(self, leases: set[int]) -> None:
        self._apply(
            [Delete(k) for k, e in self._entries.items() if e.lease in leases], durable=True
        )

    def _until_expiry(self) -> float | None:
        if not self._leases:
            return None
        end = min(lease.end for lease in self._leases.values())
        # What could not be written down at its end is tried again, but not without a pause.
        return max(_AGAIN_S, end - self._clock.monotonic())

    def _events(self, prefix: str, from_revision: int) -> list[KeyEvent]:
        if from_revision <= self._forgotten and self._forgotten > 0:
            raise WatchCompacted(
                f"events from revision {from_revision} on are no longer kept", object=prefix
            )
        found: list[KeyEvent] = []
        for event in reversed(self._history):
            if event.revision < from_revision:
                break
            if event.key.startswith(prefix):
                found.append(event)
        found.reverse()
        return found


@contextmanager
def _failing() -> Iterator[None]:
    """SQLite's errors as ours: of a disk that is full or broken, for now."""
    try:
        yield
    except sqlite3.Error as e:
        raise StoreFailed(
            f"cannot be written: {e}",
            object="store",
            hint="look at the disk of the data folder: is it full?",
        ) from e


class EmbeddedWatch:
    """A cursor over the store's recent events; sleeps on the store's condition."""

    def __init__(self, store: EmbeddedStore, prefix: str, from_revision: int) -> None:
        self._store = store
        self._prefix = prefix
        self._from = from_revision
        self._closed = False

    def next(self, timeout_s: float | None = None) -> list[KeyEvent]:
        store = self._store
        deadline = None if timeout_s is None else store._clock.monotonic() + timeout_s
        with store._changed:
            while not (self._closed or store._closed):
                store._expire()
                found = store._events(self._prefix, self._from)
                self._from = max(self._from, store._revision + 1)
                if found:
                    return found
                waits = [store._until_expiry()]
                if deadline is not None:
                    left = deadline - store._clock.monotonic()
                    if left <= 0:
                        return []
                    waits.append(left)
                store._changed.wait(min((w for w in waits if w is not None), default=None))
        return []

    def close(self) -> None:
        with self._store._changed:
            self._closed = True
            self._store._changed.notify_all()
