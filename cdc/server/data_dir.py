"""The data directory: one server at a time, readable by its user only."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from cdc.base.errors import InvalidError


class DataDirInUse(InvalidError):
    """Another server works in this data directory."""

    code = "TG:ErrDataDirInUse"


class DataDirUnusable(InvalidError):
    """The data directory cannot be made or written."""

    code = "TG:ErrDataDirUnusable"


class DataDir:
    """Holds an exclusive flock on ``<data-dir>/lock`` until closed, or until the process dies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise DataDirUnusable(
                e.strerror or str(e), object=str(path), hint="choose another --data-dir"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise DataDirInUse(
                f"a server with pid {holder} works here",
                object=str(path),
                hint="stop it, or choose another --data-dir",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    @property
    def store(self) -> Path:
        """File of the embedded store."""
        return self.path / "store" / "meta.db"

    @property
    def logs(self) -> Path:
        """Folder of all change logs."""
        return self.path / "log"

    def log(self, upstream: str) -> Path:
        """The change log of a single-node upstream."""
        return self.logs / upstream / "0"

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._fd)
