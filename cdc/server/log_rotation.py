"""A log file that is closed at a size, and old ones that go.

A full ``cdc.log`` becomes ``cdc-2026-11-20T12-34-56.789.log``, as TiCDC's does; names sort by time.
"""

from __future__ import annotations

import logging
import os
import re
import time
from itertools import count
from pathlib import Path

from cdc.server.settings import LogFileSettings

_DAY_S = 86_400
_MIB = 1 << 20


class RotatedFile(logging.FileHandler):
    """Appends to ``path``; begins it anew where the next line would make it too large."""

    def __init__(self, path: Path, settings: LogFileSettings) -> None:
        super().__init__(path, encoding="utf-8")
        self._path = path
        self._settings = settings
        self._limit = settings.max_size * _MIB
        self._size = path.stat().st_size
        self._drop()

    def emit(self, record: logging.LogRecord) -> None:
        """As of :class:`logging.Handler`; called under the handler's lock."""
        try:
            line = (self.format(record) + self.terminator).encode("utf-8", "backslashreplace")
            if self._limit and self._size and self._size + len(line) > self._limit:
                self._rotate(record.created)
            if self.stream is None:
                self.stream = self._open()
            self.stream.buffer.write(line)
            self.stream.flush()
            self._size += len(line)
        except Exception:
            self.handleError(record)

    def _rotate(self, now_s: float) -> None:
        self.close()
        os.replace(self._path, _free_name(self._path, now_s))
        self._size = 0
        self._drop()

    def _drop(self) -> None:
        """Remove files that are too many or too old."""
        old = sorted(rotated(self._path), reverse=True)
        most = self._settings.max_backups
        gone = set(old[most:]) if most else set()
        if self._settings.max_days:
            before_s = time.time() - self._settings.max_days * _DAY_S
            gone |= {p for p in old if p.stat().st_mtime < before_s}
        for path in gone:
            path.unlink(missing_ok=True)


def rotated(path: Path) -> list[Path]:
    """The files that a log file was renamed to."""
    stamp = r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}"
    name = re.compile(re.escape(path.stem) + stamp + re.escape(path.suffix))
    return [p for p in path.parent.iterdir() if name.fullmatch(p.name)]


def _free_name(path: Path, now_s: float) -> Path:
    """The name for this moment, or for the next one that has no file yet."""
    for now_ms in count(int(now_s * 1000)):
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(now_ms // 1000))
        name = path.with_name(f"{path.stem}-{stamp}.{now_ms % 1000:03d}{path.suffix}")
        if not name.exists():
            return name
    raise AssertionError("count ends")
