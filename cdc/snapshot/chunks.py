"""Chunks of a table, planned one by one while others are read: nothing counts or reads it first.

The tail, above the greatest key of the moment, comes first, while it is nearly empty; what is
appended meanwhile falls into it and is in the log, so that planning ends however fast a table
grows. The other chunks follow from the least key on. Borders are found without the operator's
condition, so that a rare one makes small chunks and not long searches.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import pymysql

from cdc.base.errors import InvalidError, TidegateError, TransientError
from cdc.snapshot.errors import SnapshotTableUnreadable
from cdc.snapshot.handle import Border, Handle
from cdc.source.connection import query_error, rows

# A key is dense while its numbers are at most so many for each row that the server guesses.
_DENSE = 2
_NO_SUCH = frozenset({1049, 1054, 1146})
_NO_RIGHT = frozenset({1044, 1142, 1143})


class SnapshotTableChanged(TransientError):
    """A table of a row snapshot, or a column of its key, is not there any more."""

    code = "TG:ErrSnapshotTableChanged"


class SnapshotWhereInvalid(InvalidError):
    """The condition of a row snapshot is not one that the server understands for a table."""

    code = "TG:ErrSnapshotWhereInvalid"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of ``schema.table`` with a key above ``low`` and up to ``high``; None is open.

    ``number`` counts from 0 within the table. ``rows`` is how many it was made for: about so many,
    or fewer, are in it; 0 where nothing is known.
    """

    schema: str
    table: str
    number: int
    low: Border | None = None
    high: Border | None = None
    rows: int = 0

    @property
    def whole(self) -> bool:
        """Whether all rows of the table are in it, however many: nothing cuts the table."""
        return self.low is None and self.high is None

    def condition(self, handle: Handle | None, where: str = "") -> str:
        """SQL behind WHERE for its rows, of those that the operator's ``where`` is true for."""
        range_ = handle.within(self.low, self.high) if handle is not None else "1 = 1"
        return f"{range_} AND {_bracketed(where)}" if where else range_

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Chunk:
        """Inverse of ``to_dict``, of the lists of JSON too."""
        borders = {name: _border(value.get(name)) for name in ("low", "high")}
        return cls(**{**value, **borders})


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """How far a table is planned; a plan that was kept goes on where it stood.

    Chunks up to ``after`` are planned, ``number`` of them; ``end`` was the greatest key when
    planning began, above which all belongs to the tail. ``least``: the least key, where it is
    reckoned and not asked; None otherwise. ``finished``: no chunk is left.
    """

    end: Border | None = None
    after: Border | None = None
    least: int | None = None
    number: int = 0
    finished: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> ChunkPlan:
        """Inverse of ``to_dict``, of the lists of JSON too."""
        borders = {name: _border(value.get(name)) for name in ("end", "after")}
        return cls(**{**value, **borders})


class ChunkPlanner:
    """Plans one table over a connection that has run ``cdc.snapshot.handle.SESSION``.

    ``handle`` None: the table is one chunk. The first chunk must be asked for only when the
    snapshot's low position is visible on that server, as for any SELECT of a snapshot. Both
    methods raise SnapshotTableChanged, and UpstreamGone or UpstreamNotReady.
    """

    def __init__(self, connection: Any, schema: str, table: str, handle: Handle | None) -> None:
        self._connection = connection
        self._schema, self._table = schema, table
        self._handle = handle

    def begin(self) -> ChunkPlan:
        """A plan of nothing yet. Asks for the ends of the key and the server's guess of rows."""
        handle = self._handle
        if handle is None:
            return ChunkPlan()
        end = self._key(f"ORDER BY {handle.order(backwards=True)} LIMIT 1")
        if end is None or not handle.is_integer:
            return ChunkPlan(end)
        least = self._key(f"ORDER BY {handle.order()} LIMIT 1")
        dense = least is not None and int(end[0]) - int(least[0]) < _DENSE * self._guess()
        return ChunkPlan(end, least=int(least[0]) if least is not None and dense else None)

    def next(self, plan: ChunkPlan, size: int) -> tuple[Chunk | None, ChunkPlan]:
        """The next chunk, of ``size`` rows at most but for the tail, and the plan behind it.

        A chunk of None: all were given.
        """
        if plan.finished:
            return None, plan
        if plan.end is None:
            # Without a key, or empty: whatever is there, is one chunk.
            return self._chunk(plan, None, None), replace(plan, number=1, finished=True)
        if plan.number == 0:
            if plan.least is not None and int(plan.end[0]) - plan.least < size:
                # No more rows than there are numbers: a tail of its own would double the work.
                return self._chunk(plan, None, None, size), replace(plan, number=1, finished=True)
            return self._chunk(plan, plan.end, None), replace(plan, number=1)
        high = self._border(plan, size)
        last = high is None or high == plan.end
        chunk = self._chunk(plan, plan.after, plan.end if high is None else high, size)
        return chunk, replace(plan, after=chunk.high, number=plan.number + 1, finished=last)

    def _chunk(
        self, plan: ChunkPlan, low: Border | None, high: Border | None, size: int = 0
    ) -> Chunk:
        return Chunk(self._schema, self._table, plan.number, low, high, size)

    def _border(self, plan: ChunkPlan, size: int) -> Border | None:
        """Where the chunk behind ``plan.after`` ends; None at the plan's end."""
        if plan.least is not None and plan.end is not None:
            before = int(plan.after[0]) if plan.after is not None else plan.least - 1
            high = before + size
            return (str(high),) if high < int(plan.end[0]) else None
        handle = self._handle
        if handle is None:
            return None
        return self._key(
            f"WHERE {handle.within(plan.after, plan.end)}"
            f" ORDER BY {handle.order()} LIMIT 1 OFFSET {size - 1}"
        )

    def _key(self, tail: str) -> Border | None:
        handle = self._handle
        if handle is None:
            return None
        found = self._ask(f"SELECT {handle.cells} FROM {handle.source} {tail}")
        return handle.border(found[0]) if found else None

    def _guess(self) -> int:
        found = self._ask(
            "SELECT table_rows FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            self._schema,
            self._table,
        )
        return int(found[0][0] or 0) if found else 0

    def _ask(self, sql: str, *args: str) -> list[tuple[Any, ...]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql, args or None)
                return list(cursor.fetchall())
        except pymysql.err.MySQLError as error:
            raise select_error(error, self._schema, self._table) from None


def select_error(error: Any, schema: str, table: str) -> TidegateError:
    """Our error for one of the server's about a SELECT of a table."""
    if error.args and error.args[0] in _NO_SUCH:
        return SnapshotTableChanged(
            str(error.args[1]), object=f"{schema}.{table}", hint="plan the table anew"
        )
    if error.args and error.args[0] in _NO_RIGHT:
        return SnapshotTableUnreadable(
            str(error.args[1]),
            object=f"{schema}.{table}",
            hint="grant SELECT on it to the upstream's user, or exclude it by filter.rules",
        )
    return query_error(error, f"{schema}.{table}")


def check_where(connection: Any, schema: str, table: str, source: str, where: str) -> None:
    """Raise SnapshotWhereInvalid unless ``where`` is one whole condition over a table.

    ``source`` is the table in SQL. It is tried in brackets and without: what passes both ways does
    not close the brackets that it will stand in.
    """
    for condition in (where, _bracketed(where)):
        try:
            rows(connection, f"SELECT 1 FROM {source} WHERE {condition}\nLIMIT 0")
        except pymysql.err.MySQLError as error:
            if not error.args or error.args[0] in _NO_SUCH - {1054} or _lost(error):
                raise select_error(error, schema, table) from None
            raise SnapshotWhereInvalid(
                str(error.args[1]),
                object=f"{schema}.{table}",
                hint="write it as it stands behind WHERE, over columns of this table",
            ) from None


def _lost(error: Any) -> bool:
    # The client's own numbers, and what a server says of rights and of its end.
    number = int(error.args[0])
    return 2000 <= number < 3000 or number in (1044, 1045, 1053, 1142, 1143, 1227)


def _bracketed(where: str) -> str:
    # The line's end closes a comment at the end of the text.
    return f"({where}\n)"


def _border(value: Any) -> Border | None:
    return None if value is None else tuple(str(v) for v in value)
