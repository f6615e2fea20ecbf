"""Snapshots of a log's schema that this process has read, shared by all who begin with one.

Each changefeed follows the schema by itself, and most of it never changes: so what they have in
common is there once, with the tables that any of them has read. A snapshot goes when the last
history that began with it does.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.schema.catalog import Catalog
from cdc.schema.session import Session
from cdc.schema.snapshot import catalog, session_of

_ATTEMPTS = 3


class KnownSnapshot:
    """A snapshot as a value; nobody changes it. ``lost`` and ``unkeyed`` are as it has them."""

    def __init__(self, snapshot: Mapping[str, Any]) -> None:
        self.ts: Ts = int(snapshot["ts"])
        self.session: Session = session_of(snapshot["server"])
        self.catalog: Catalog = catalog(snapshot)
        self.lost: tuple[Any, ...] = tuple(snapshot.get("lost", ()))
        self.unkeyed: tuple[Any, ...] = tuple(snapshot.get("unkeyed", ()))


_Identity = tuple[Path, int, int, int]
_known: WeakValueDictionary[_Identity, KnownSnapshot] = WeakValueDictionary()
# Held while one is read: of many who begin at once the first reads it for all.
_guard = threading.Lock()


def snapshot_at(log: ChangeLog, ts: Ts) -> KnownSnapshot:
    """The newest snapshot of a log at or below ``ts``. Raises LogCollected, LogCorrupt."""
    with _guard:
        for left in range(_ATTEMPTS - 1, -1, -1):
            path = log.snapshot_file(ts)
            try:
                identity = _identity(path)
            except FileNotFoundError:
                # One that has gone since was not needed any more, so there is another.
                if left:
                    continue
                raise
            found = _known.get(identity)
            if found is None:
                found = KnownSnapshot(log.snapshot_at(ts))
                if identity == _identity_if_there(path) and str(found.ts) == path.stem:
                    _known[identity] = found
            return found
    raise AssertionError


def _identity(path: Path) -> _Identity:
    stat = path.stat()
    return path, stat.st_ino, stat.st_mtime_ns, stat.st_size


def _identity_if_there(path: Path) -> _Identity | None:
    try:
        return _identity(path)
    except FileNotFoundError:
        return None
