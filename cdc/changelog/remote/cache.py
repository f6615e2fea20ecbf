"""What copies of logs take of a host's disk: a bound, and segments that are in use stay."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

# So often at most all of it is looked through, by bytes that have come since.
_LOOK_BYTES = 32 << 20


class CacheRoom:
    """The folder of all copies of an executor; processes share it by locks of files."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self._most = most_bytes
        self._taken = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def hold(self, path: Path) -> int:
        """A descriptor of a file, made if it is not there; while it is open the file stays."""
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_SH)
            try:
                if os.stat(path).st_ino == os.fstat(fd).st_ino:
                    return fd
            except FileNotFoundError:
                pass
            # It was removed between both.
            os.close(fd)

    def taken(self, size: int) -> None:
        """So many bytes have come."""
        self._taken += size

    def make(self) -> None:
        """Remove the segments that were filled longest ago and are in no use, above the bound."""
        if self._taken < min(_LOOK_BYTES, self._most // 4):
            return
        self._taken = 0
        found = sorted(self._segments())
        used = sum(size for _, size, _ in found)
        for _, size, path in found:
            if used <= self._most:
                return
            if _remove(path):
                used -= size

    def _segments(self) -> list[tuple[int, int, Path]]:
        """When each was filled last, the bytes that it takes, and where it is."""
        segments = []
        for path in self.folder.glob("*/*.binlog"):
            try:
                segments.append((path.stat().st_mtime_ns, path.stat().st_blocks * 512, path))
            except FileNotFoundError:
                continue
        return segments


def _remove(path: Path) -> bool:
    """Remove a segment unless it is in use; whether it was."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who holds it from now on makes both anew.
        path.with_name(f"{path.name}.have").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
