"""Durable writing: whole buffers, synced folders, files that appear complete or not at all."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from cdc.changelog import names

# The kernel takes page cache in units as large as the write, and the largest ones are seldom at
# hand: on a virtual machine, writes of megabytes cost up to three times the system's time.
_WRITE_BYTES = 256 << 10


def write_at(fd: int, data: memoryview, offset: int) -> None:
    """Write all of ``data`` at ``offset``; one system call may take less than it was given."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done : done + _WRITE_BYTES], offset + done)


_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
_SYNC_FILE_RANGE_WRITE = 2
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def start_writing(fd: int, offset: int, length: int) -> None:
    """Have the kernel begin to write a range out, so that the next sync has less to wait for.

    Nothing is durable by it, nothing waits for it, and where it cannot be done nothing is lost.
    """
    if _sync_file_range is not None:
        _sync_file_range(fd, offset, length, _SYNC_FILE_RANGE_WRITE)


def sync_folder(folder: Path) -> None:
    """Make created, renamed and removed names of a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(path: Path, data: bytes) -> None:
    """Put a file there atomically and durably."""
    temporary = path.with_name(path.name + names.TEMPORARY)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_at(fd, memoryview(data), 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    sync_folder(path.parent)
