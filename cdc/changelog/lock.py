"""The lock that makes a log's writer the only one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from cdc.changelog import names
from cdc.changelog.errors import LogLocked


def acquire(folder: Path) -> int:
    """Take the flock of the log and write our pid into it; returns the descriptor that holds it.

    The kernel releases it when the process dies. Raises LogLocked, naming the holder's pid.
    """
    fd = os.open(folder / names.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise LogLocked(
            f"the change log is written by process {holder}",
            object=names.shown(folder),
            hint="stop that process, or give this capture a data folder of its own",
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
