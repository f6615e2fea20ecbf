"""Indexes of segments in memory: loaded on demand, grown as the file grows, few kept."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from pathlib import Path

from cdc.changelog import names
from cdc.changelog.index import RunBuffer
from cdc.changelog.index_file import damage_at, decode
from cdc.changelog.planning import SegmentPlan
from cdc.changelog.state import SegmentInfo
from cdc.changelog.verify import LogDamage

# A reader that has come to a new segment looks back into the one before.
_LEAST_HELD = 2


class SegmentIndex:
    """The checked index of one segment, as far as it was read."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._length = 0
        self._crc = 0
        self._runs = RunBuffer()
        self._plan = SegmentPlan(self._runs.view())

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._runs.nbytes

    @property
    def read(self) -> SegmentPlan:
        """What was read so far."""
        return self._plan

    def at(self, folder: Path, info: SegmentInfo) -> SegmentPlan:
        """The index at (or beyond) the length of ``info``, reading only what is new.

        Raises LogCorrupt if the file's CRC is not the manifest's, FileNotFoundError if the
        segment was collected.
        """
        if info.index <= self._length:
            return self._plan
        name = names.index_name(self._number)
        with (folder / name).open("rb") as file:
            file.seek(self._length)
            data = file.read(info.index - self._length)
        crc = zlib.crc32(data, self._crc)
        if len(data) != info.index - self._length or crc != info.index_crc:
            raise self._damaged(folder / name, info)
        self._runs.extend(decode(data, whole=self._length == 0))
        self._length, self._crc = info.index, crc
        self._plan = SegmentPlan(self._runs.view())
        return self._plan

    def _damaged(self, path: Path, info: SegmentInfo) -> Exception:
        with path.open("rb") as file:
            data = file.read(info.index)
        return LogDamage(path.name, damage_at(data), "the index has a wrong CRC").error()


class IndexCache:
    """Indexes by segment; the least recently used go once ``max_bytes`` are exceeded.

    Two stay in any case.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._held: OrderedDict[int, SegmentIndex] = OrderedDict()

    def get(self, info: SegmentInfo) -> SegmentPlan:
        """The index of a segment."""
        held = self._held.setdefault(info.number, SegmentIndex(info.number))
        self._held.move_to_end(info.number)
        plan = held.at(self._folder, info)
        while len(self._held) > _LEAST_HELD and self.nbytes > self._max_bytes:
            self._held.popitem(last=False)
        return plan

    def with_ddls(self, info: SegmentInfo) -> SegmentPlan | None:
        """The index of a segment as far as it was read, if no DDL row can lie behind that."""
        held = self._held.get(info.number)
        return held.read if held is not None and held.read.ddl_count >= info.ddls else None

    def forget_before(self, number: int) -> None:
        """Give back segments with lower numbers; who asks for one again has it read again."""
        for old in [n for n in self._held if n < number]:
            del self._held[old]

    @property
    def nbytes(self) -> int:
        """Bytes held by all."""
        return sum(i.nbytes for i in self._held.values())
