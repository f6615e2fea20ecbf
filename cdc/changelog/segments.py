"""The segments of a log for a reader: their indexes, and maps of their bytes.

What is read is asked for first (:class:`cdc.changelog.log_files.LogFiles`), and where that is a
copy and it is damaged, once more.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from cdc.changelog import names
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.format_event import first_event
from cdc.changelog.index_cache import IndexCache
from cdc.changelog.log_files import LogFiles
from cdc.changelog.planning import SegmentPlan
from cdc.changelog.segment_file import MAGIC
from cdc.changelog.segment_maps import SegmentMaps
from cdc.changelog.state import SegmentInfo

# A FORMAT_DESCRIPTION is much shorter.
_HEAD_BYTES = 4096


class Segments:
    """Safe for several threads. All raise FileNotFoundError for a segment that was collected."""

    def __init__(self, log_files: LogFiles, index_bytes: int) -> None:
        self._files = log_files
        self._lock = threading.Lock()
        self._indexes = IndexCache(log_files.folder, index_bytes)
        self._maps = SegmentMaps(log_files.folder)

    @property
    def index_bytes(self) -> int:
        """Bytes of memory that indexes take."""
        return self._indexes.nbytes

    def index(self, info: SegmentInfo) -> SegmentPlan:
        """The checked index of a segment. Raises LogCorrupt."""
        name = names.index_name(info.number)
        with self._lock:
            self._files.grown(name, info.index)
            try:
                return self._indexes.get(info)
            except LogCorrupt:
                if not self._files.again(name):
                    raise
                self._files.grown(name, info.index)
                return self._indexes.get(info)

    def index_of_ddls(self, info: SegmentInfo) -> SegmentPlan:
        """An index in which all DDL rows of a segment are, and maybe not all others.

        As :meth:`index` otherwise.
        """
        with self._lock:
            known = self._indexes.with_ddls(info)
        return self.index(info) if known is None else known

    def data(self, info: SegmentInfo) -> NDArray[np.uint8]:
        """The committed bytes of a segment, of which only what was verified needs to be there."""
        return self._maps.get(info)

    def verify(
        self, info: SegmentInfo, offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> None:
        """Have these runs of a segment, and check their events' CRC. Raises LogCorrupt."""
        self._files.ranges(info, offsets, lengths)
        try:
            self._maps.verify(info, offsets, lengths)
        except LogCorrupt:
            if not self._files.again(names.data_name(info.number)):
                raise
            self._files.ranges(info, offsets, lengths)
            self._maps.verify(info, offsets, lengths)

    def format(self, info: SegmentInfo) -> bytes:
        """The FORMAT_DESCRIPTION event of a segment."""
        head = min(_HEAD_BYTES, info.data)
        self._files.ranges(info, np.zeros(1, np.int64), np.array([head], np.int64))
        return first_event(self._maps.get(info)[:head].tobytes(), len(MAGIC))

    def forget_before(self, number: int) -> None:
        """Give back what is kept of segments with lower numbers."""
        with self._lock:
            self._indexes.forget_before(number)
        self._maps.forget_before(number)
        self._files.forget_before(number)
