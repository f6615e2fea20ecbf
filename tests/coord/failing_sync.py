"""SQLite on a disk whose fsync fails while it is told so, as one with bad blocks or a full pool."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_IOERR_FSYNC = 10 | (4 << 8)
# In C: struct sqlite3_vfs up to xOpen; struct sqlite3_io_methods up to xSync, and all of it.
_X_OPEN_AT, _X_SYNC_AT, _METHODS_BYTES = 40, 40, 8 + 18 * 8

# What C calls must outlive a file that a failing test leaves open.
_KEPT: list[Any] = []

_Open = ctypes.CFUNCTYPE(
    ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_void_p, use_errno=True
)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, use_errno=True)


class Disk:
    """While ``broken`` no sync succeeds; ``refused`` counts them."""

    def __init__(self) -> None:
        self.broken = False
        self.refused = 0
        self._kept: dict[int, Any] = {}

    def methods(self, original: int) -> int:
        """Address of the methods of a file, with our sync among them."""
        if original not in self._kept:
            copy = ctypes.create_string_buffer(
                ctypes.string_at(original, _METHODS_BYTES), _METHODS_BYTES
            )
            place = ctypes.c_void_p.from_buffer(copy, _X_SYNC_AT)
            theirs = _Sync(place.value or 0)

            def sync(file: int, flags: int) -> int:
                if self.broken:
                    self.refused += 1
                    return _IOERR_FSYNC
                return int(theirs(file, flags))

            ours = _Sync(sync)
            place.value = ctypes.cast(ours, ctypes.c_void_p).value
            self._kept[original] = (copy, ours)
        return ctypes.addressof(self._kept[original][0])


@contextmanager
def failing_sync() -> Iterator[Disk]:
    """Files that SQLite opens in here are on such a disk."""
    try:
        library = ctypes.CDLL("libsqlite3.so.0")
    except OSError:
        pytest.skip("SQLite is part of this Python, not a library of the system")
    library.sqlite3_vfs_find.restype = ctypes.c_void_p
    place = ctypes.c_void_p.from_address(library.sqlite3_vfs_find(None) + _X_OPEN_AT)
    before = place.value
    assert before is not None
    theirs, disk = _Open(before), Disk()

    def opened(vfs: int, name: int, file: int, flags: int, out: int) -> int:
        code = int(theirs(vfs, name, file, flags, out))
        methods = ctypes.c_void_p.from_address(file)
        if methods.value is not None:
            methods.value = disk.methods(methods.value)
        return code

    ours = _Open(opened)
    _KEPT.append((disk, ours))
    place.value = ctypes.cast(ours, ctypes.c_void_p).value
    try:
        yield disk
    finally:
        place.value = before
