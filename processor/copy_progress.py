"""How far a copy of rows is, how fast it goes, and of which tables how much is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cdc.base.clock import Clock
from cdc.coord.messages import SnapshotProgress, TableRead, TableReadState

# So long does what was read count for the speed.
_MEMORY_S = 30.0
# More are not told: reports are written all the time, and there may be many thousands.
_TOLD = 100
# Of so many, which are told is looked at no more often than this.
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Speed:
    """Rows a second, of late; ``at_s`` (monotonic) is when that was reckoned."""

    at_s: float
    per_second: float = 0.0
    begun: bool = False

    def read(self, rows: int, now_s: float) -> Speed:
        """The speed once so many more were read."""
        passed_s = max(now_s - self.at_s, 1e-3)
        share = math.exp(-passed_s / _MEMORY_S) if self.begun else 0.0
        now = rows / passed_s
        return Speed(now_s, self.per_second * share + now * (1 - share), begun=True)


class CopyProgress:
    """Counts what one copy reads, and tells it. Of one thread."""

    def __init__(self, clock: Clock, tell: Callable[[SnapshotProgress], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._speed = Speed(clock.monotonic())
        self._tables: dict[str, TableRead] = {}
        self._looked_s = -math.inf
        self.now = SnapshotProgress(began_ms=clock.now_ms())

    def note(self, **changes: int) -> None:
        """Tell these values with all others."""
        self.now = self.now.model_copy(update=changes)
        self._tell(self.now)

    def begin_round(self, done: Iterable[str], expected: Mapping[str, int]) -> None:
        """All tables that there are now: those that are read already, and all with their guess."""
        known, ready = self._tables, frozenset(done)
        self._tables = {
            name: known[name]
            if name in ready and name in known
            else TableRead(name=name, state=TableReadState.WAITING, expected=guess)
            for name, guess in expected.items()
        }
        self._looked_s = -math.inf
        self._count(tables=len(self._tables), tables_done=len(ready))

    def begin(self, name: str) -> None:
        """A table is read from now on, from its beginning."""
        self._set(name, state=TableReadState.READING, rows=0)
        self._count()

    def read(self, name: str, rows: int, size: int) -> None:
        """So many rows and bytes more of a table."""
        self._speed = self._speed.read(rows, self._clock.monotonic())
        one = self._tables.get(name)
        if one is not None:
            self._set(name, rows=one.rows + rows)
        self._count(rows=self.now.rows + rows, bytes=self.now.bytes + size)

    def end(self, name: str, *, read: bool) -> None:
        """A table is read, or cannot be."""
        self._set(name, state=TableReadState.READ)
        self._count(tables_done=self.now.tables_done + read)

    def _set(self, name: str, **changes: object) -> None:
        one = self._tables.get(name)
        if one is not None:
            self._tables[name] = one.model_copy(update=changes)

    def _count(self, **changes: int) -> None:
        tables, now_s = self._tables.values(), self._clock.monotonic()
        if len(tables) > _TOLD and now_s - self._looked_s < _LOOK_S:
            self.note(**changes)
            return
        self._looked_s = now_s
        # A table of which there are more than was guessed has at least what was read.
        expected = sum(t.rows if t.state is TableReadState.READ else _least(t) for t in tables)
        guessed = any(t.expected for t in tables)
        self.now = self.now.model_copy(
            update={
                "rows_expected": expected if guessed else 0,
                "rows_per_second": round(self._speed.per_second, 1),
                "reads": sorted(tables, key=_place)[:_TOLD],
            }
        )
        self.note(**changes)


def _least(table: TableRead) -> int:
    return max(table.rows, table.expected)


_ORDER = (TableReadState.READING, TableReadState.WAITING, TableReadState.READ)


def _place(table: TableRead) -> tuple[int, int, str]:
    return _ORDER.index(table.state), -_least(table), table.name
