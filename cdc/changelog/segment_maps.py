"""Memory maps of segments, and which of their runs were verified in this process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cdc.changelog import names
from cdc.changelog.state import SegmentInfo
from cdc.changelog.verify import LogDamage, map_file
from cdc.kernels.check_runs import BLOCK_BITS, check_runs

_MAPS_MAX = 32


@dataclass
class _Held:
    data: NDArray[np.uint8]
    seen: NDArray[np.uint8]


class SegmentMaps:
    """Read-only maps by segment number; the pages belong to the file, not to us."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._held: OrderedDict[int, _Held] = OrderedDict()

    def get(self, info: SegmentInfo) -> NDArray[np.uint8]:
        """The committed bytes of a segment. Raises FileNotFoundError if it was collected."""
        return self._get(info).data

    def verify(
        self, info: SegmentInfo, offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> None:
        """Check the CRC of all events of these runs of the segment, unless checked before.

        Raises LogCorrupt with file and offset.
        """
        held = self._get(info)
        offset = check_runs(
            held.data, np.ascontiguousarray(offsets), np.ascontiguousarray(lengths), held.seen
        )
        if offset >= 0:
            name = names.data_name(info.number)
            raise LogDamage(name, int(offset), "an event has a wrong length or CRC").error()

    def forget_before(self, number: int) -> None:
        """Unmap segments with lower numbers, once no array of theirs is used any more."""
        with self._lock:
            for old in [n for n in self._held if n < number]:
                del self._held[old]

    def _get(self, info: SegmentInfo) -> _Held:
        with self._lock:
            return self._map(info)

    def _map(self, info: SegmentInfo) -> _Held:
        held = self._held.get(info.number)
        if held is None or len(held.data) < info.data:
            data = map_file(self._folder / names.data_name(info.number), info.data)
            seen = np.zeros((len(data) >> (BLOCK_BITS + 3)) + 1, np.uint8)
            if held is not None:
                seen[: len(held.seen)] = held.seen
            held = self._held[info.number] = _Held(data, seen)
        self._held.move_to_end(info.number)
        while len(self._held) > _MAPS_MAX:
            self._held.popitem(last=False)
        return held
