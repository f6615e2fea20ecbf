"""The two files of the segment that is written: data and index."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cdc.changelog import files, names
from cdc.changelog.index import RunKind, Runs
from cdc.changelog.index_file import SCHEMA_BYTES, encode_batch
from cdc.changelog.state import SegmentInfo

MAGIC = b"\xfebin"

# Appended bytes are written out from so many on, and not only by the next commit's sync.
_WRITE_OUT = 4 << 20


class Stretch(NamedTuple):
    """Bytes ``lo`` to ``hi`` of a segment's data file."""

    path: Path
    lo: int
    hi: int


class SegmentFile:
    """Appends to one segment. ``info`` says what is written; only ``syncs`` make it durable."""

    def __init__(self, folder: Path, info: SegmentInfo) -> None:
        self.info = info
        self._started = info.data
        self._dirty_data = self._dirty_index = False
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._data_fd = os.open(folder / names.data_name(info.number), flags, 0o600)
        try:
            self._index_fd = os.open(folder / names.index_name(info.number), flags, 0o600)
        except OSError:
            os.close(self._data_fd)
            raise

    @classmethod
    def create(cls, folder: Path, number: int, head: bytes) -> SegmentFile:
        """A new segment that begins with the magic and ``head`` (whole events)."""
        segment = cls(folder, SegmentInfo(number=number, oldest=number))
        segment.append(memoryview(MAGIC + head))
        segment._append_index(SCHEMA_BYTES)
        return segment

    @classmethod
    def adopt(cls, folder: Path, number: int, file: Path, size: int) -> SegmentFile:
        """A new segment of a file of ``size`` bytes in the same file system; it is moved here."""
        file.rename(folder / names.data_name(number))
        segment = cls(folder, SegmentInfo(number=number, data=size, oldest=number))
        files.start_writing(segment._data_fd, 0, size)
        segment._dirty_data = True
        segment._append_index(SCHEMA_BYTES)
        return segment

    def append(self, data: memoryview) -> int:
        """Write whole events at the end; returns the offset of the first."""
        at = self.info.data
        files.write_at(self._data_fd, data, at)
        self.info = replace(self.info, data=at + len(data))
        self._dirty_data = True
        if self.info.data - self._started >= _WRITE_OUT:
            files.start_writing(self._data_fd, self._started, self.info.data - self._started)
            self._started = self.info.data
        return at

    def append_runs(self, runs: Runs) -> None:
        """Write one record batch; segments in ``runs`` are absolute."""
        if not len(runs):
            return
        self._append_index(encode_batch(runs, self.info.index_crc))
        placed = runs.commit_ts[runs.commit_ts > 0]
        ours = runs.segment[runs.segment >= 0]
        info = self.info
        self.info = replace(
            info,
            first_ts=info.first_ts or (int(placed[0]) if len(placed) else 0),
            ddls=info.ddls + int((runs.kind == RunKind.DDL).sum()),
            oldest=min(info.oldest, int(ours.min()) if len(ours) else info.oldest),
        )

    def summarise(self, last_ts: int, time_ms: int) -> None:
        """Note the log's largest ts and the time, for retention."""
        self.info = replace(self.info, last_ts=last_ts, time_ms=time_ms)

    def cut(self) -> None:
        """Remove what lies in the files behind ``info``."""
        os.ftruncate(self._data_fd, self.info.data)
        os.ftruncate(self._index_fd, self.info.index)
        self._dirty_data = self._dirty_index = True

    def syncs(self) -> list[Callable[[], None]]:
        """What must be run, in any order or at once, to make data and index durable."""
        fds = [(self._data_fd, self._dirty_data), (self._index_fd, self._dirty_index)]
        self._dirty_data = self._dirty_index = False
        return [partial(os.fdatasync, fd) for fd, dirty in fds if dirty]

    def head(self, length: int) -> bytes:
        """The first bytes of the data file."""
        return os.pread(self._data_fd, length, 0)

    def close(self) -> None:
        """Close both files."""
        os.close(self._data_fd)
        os.close(self._index_fd)

    def _append_index(self, data: bytes) -> None:
        files.write_at(self._index_fd, memoryview(data), self.info.index)
        crc = zlib.crc32(data, self.info.index_crc)
        self.info = replace(self.info, index=self.info.index + len(data), index_crc=crc)
        self._dirty_index = True
