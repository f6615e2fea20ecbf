"""Which of the workload's numbered changes have been seen, each at most once."""

from __future__ import annotations

from bench.workload import WORKER_SHIFT, Committed

_MASK = (1 << WORKER_SHIFT) - 1
_PUT, _DELETED = 1, 2
_SET = (_PUT, _PUT | _DELETED)


class Seen:
    """A byte for each number: one bit for INSERT or UPDATE, one for DELETE."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, int], bytearray] = {}

    def first_time(self, table: str, version: int, *, deleted: bool) -> bool:
        """Mark a change; False if it was marked before."""
        marks = self._marks.setdefault((table, version >> WORKER_SHIFT), bytearray())
        at, bit = version & _MASK, _DELETED if deleted else _PUT
        if at >= len(marks):
            marks.extend(bytes(at + 1 - len(marks) + 65536))
        seen = marks[at] & bit
        marks[at] |= bit
        return not seen

    def missing(self, committed: Committed) -> int:
        """How many committed inserts and updates have not been seen."""
        count = 0
        for place, ranges in committed.ranges.items():
            marks = self._marks.get(place, bytearray())
            for first, end in ranges:
                seen = marks[first:end]
                count += end - first - sum(seen.count(b) for b in _SET)
        return count

    def uncommitted(self, committed: Committed) -> int:
        """How many inserts and updates were seen that were never committed."""
        total = sum(marks.count(b) for marks in self._marks.values() for b in _SET)
        wanted = sum(e - f for found in committed.ranges.values() for f, e in found)
        return total - (wanted - self.missing(committed))
