"""Durable writing: whole buffers, synced folders, files that appear complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from cdc.changelog import names


def write_at(fd: int, data: memoryview, offset: int) -> None:
    """Write all of ``data`` at ``offset``; one system call may take less than it was given."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], offset + done)


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
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_at(fd, memoryview(data), 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    sync_folder(path.parent)
