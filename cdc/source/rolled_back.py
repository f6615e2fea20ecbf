"""What stays of a transaction of which parts were rolled back.

Servers take rolled-back rows out of their own cache before they log it. Where they cannot, as
another engine's rows or a temporary table belong to the transaction, they log all of it, with
``ROLLBACK TO`` a savepoint or ``ROLLBACK`` at the end (MariaDB: ``binlog_savepoint_rollback``,
``trans_cannot_safely_rollback``). Rows of engines that do not roll back are no part of it: with
``binlog_format=ROW`` they have a group of their own, in both families.
"""

from __future__ import annotations

import mmap
import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdc.binlog.events import ROWS, EventType
from cdc.binlog.query import Query
from cdc.changelog.segment_file import Stretch
from cdc.source.errors import RollbackUndecided

_HEADER = 19
_CHECKSUM = 4
_PIECE = 4 << 20  # of events that are walked at once
_NAME = r"(?P<name>\S.*?)\s*\Z"
_SAVEPOINT = re.compile(r"\s*SAVEPOINT\s+" + _NAME, re.I | re.S)
_BACK_TO = re.compile(r"\s*ROLLBACK\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?" + _NAME, re.I | re.S)


class _Place(NamedTuple):
    """Behind an event: how many ranges there were then, and where the last of them ended."""

    ranges: int
    end: int


class Kept:
    """Takes the events of one group in order; ``ranges`` are the (begin, end) of what stays.

    ``changes_tables`` says whether a statement is a schema change: one that commits what stands
    before it, and is not rolled back. Raises RollbackUndecided where it cannot be decided
    what stays.
    """

    def __init__(self, changes_tables: Callable[[Query], bool], position: str) -> None:
        self.ranges: list[tuple[int, int]] = []
        self._changes_tables = changes_tables
        self._position = position
        self._savepoints: dict[str, _Place] = {}
        self._names: set[str] = set()
        self._rows = False
        self._committed: _Place | None = None

    def take(self, event: bytes, begin: int) -> None:
        """One event that begins at ``begin``."""
        if event[4] != EventType.QUERY:
            self._rows |= event[4] in ROWS
            self._keep(begin, len(event))
            return
        query = Query.parse(event[_HEADER:-_CHECKSUM])
        back, point = _BACK_TO.match(query.sql), _SAVEPOINT.match(query.sql)
        if back is not None:
            self._back_to(_unquoted(back["name"]))
            return
        self._keep(begin, len(event))
        if point is not None:
            name = _unquoted(point["name"])
            # It moves to the end: those that were set between the two stay as they are.
            self._savepoints.pop(name, None)
            self._savepoints[name] = self._place()
            self._names.add(name)
        elif self._changes_tables(query):
            if self._rows:
                raise self._undecided("rows stand before a schema change in it")
            self._savepoints.clear()
            self._committed = self._place()

    def roll_back(self) -> None:
        """The end: all is rolled back but what a schema change has committed."""
        self._cut(self._committed or _Place(0, 0))

    def _keep(self, begin: int, length: int) -> None:
        end = begin + length
        if self.ranges and self.ranges[-1][1] == begin:
            begin, _ = self.ranges.pop()
        self.ranges.append((begin, end))

    def _place(self) -> _Place:
        return _Place(len(self.ranges), self.ranges[-1][1])

    def _cut(self, place: _Place) -> None:
        del self.ranges[place.ranges :]
        if self.ranges:
            self.ranges[-1] = (self.ranges[-1][0], place.end)

    def _back_to(self, name: str) -> None:
        if not all(map(str.isascii, self._names | {name})) and self._names != {name}:
            # Servers compare them by a collation, to which letters with accents may be equal.
            raise self._undecided("names of savepoints beyond ASCII may or may not be the same")
        place = self._savepoints.get(name)
        if place is None:
            raise self._undecided(f"it has no savepoint {name!r}")
        names = list(self._savepoints)
        for later in names[names.index(name) + 1 :]:
            del self._savepoints[later]
        self._cut(place)

    def _undecided(self, why: str) -> RollbackUndecided:
        return RollbackUndecided(
            f"what a transaction has rolled back cannot be told: {why}",
            object="replication stream",
            position=self._position,
            hint="create the upstream anew; it then begins behind this transaction",
        )


def goes_back(sql: str) -> bool:
    """Whether a text is ROLLBACK TO a savepoint."""
    return _BACK_TO.match(sql) is not None


def _unquoted(name: str) -> str:
    quote = name[0]
    if quote in '`"':
        name = name[1:-1].replace(quote * 2, quote)
    return name.lower() if name.isascii() else name


@contextmanager
def remains(
    stretches: Sequence[Stretch], kept: Kept, *, ended_by_rollback: bool
) -> Iterator[list[NDArray[np.uint8]]]:
    """What stays of the group whose events lie in ``stretches``: arrays of whole events.

    They lie in a file of their own, so the stretches may be cut off while the context lasts.
    """
    at = 0
    for stretch in stretches:
        with _mapped(stretch) as data:
            for begin, end in _events(data, stretch):
                kept.take(data[begin:end], at + begin - stretch.lo)
        at += stretch.hi - stretch.lo
    if ended_by_rollback:
        kept.roll_back()
    if not kept.ranges:
        yield []
        return
    with tempfile.TemporaryFile(dir=stretches[0].path.parent) as spool:
        ends = _copy(stretches, kept.ranges, spool)
        spool.flush()
        everything = np.memmap(spool, np.uint8, "r")
        yield [everything[lo:hi] for lo, hi in pairwise([0, *ends])]


def _copy(
    stretches: Sequence[Stretch], ranges: Sequence[tuple[int, int]], spool: IO[bytes]
) -> list[int]:
    """Write the ranges, counted over all stretches, one behind the other; ends of the pieces."""
    ends: list[int] = []
    at, written, left = 0, 0, deque(ranges)
    for stretch in stretches:
        behind = at + stretch.hi - stretch.lo
        with _mapped(stretch) as data:
            while left and left[0][0] < behind:
                lo, hi = left.popleft()
                if hi > behind:
                    left.appendleft((behind, hi))
                    hi = behind
                first = stretch.lo + lo - at
                for begin, end in _events(data, Stretch(stretch.path, first, first + hi - lo)):
                    if written + end - first - (ends[-1] if ends else 0) > _PIECE:
                        spool.write(data[first:begin])
                        written += begin - first
                        first = begin
                        ends.append(written)
                last = stretch.lo + hi - at
                spool.write(data[first:last])
                written += last - first
        at = behind
    return [*ends, written] if not ends or ends[-1] < written else ends


def _events(data: mmap.mmap, part: Stretch) -> Iterator[tuple[int, int]]:
    at = part.lo
    while at < part.hi:
        end = at + int.from_bytes(data[at + 9 : at + 13], "little")
        yield at, end
        at = end


@contextmanager
def _mapped(stretch: Stretch) -> Iterator[mmap.mmap]:
    with (
        stretch.path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        yield data
