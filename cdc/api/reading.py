"""How far the reading of rows that were there before is, and how long it may still take."""

from __future__ import annotations

from pydantic import BaseModel

from cdc.coord.messages import SnapshotProgress, TableRead, TableReadState, seconds_left


class TableReading(BaseModel):
    """Of a table; ``seconds_left`` from when it is begun, None where nothing is known."""

    table: str
    state: TableReadState
    rows: int
    rows_expected: int
    seconds_left: int | None

    @classmethod
    def of(cls, one: TableRead, per_second: float) -> TableReading:
        """Of a table that is read at so many rows a second."""
        read = one.state is TableReadState.READ
        left = 0 if read else seconds_left(one.rows, one.expected, per_second)
        return cls(
            table=one.name,
            state=one.state,
            rows=one.rows,
            rows_expected=one.expected,
            seconds_left=left,
        )


class Reading(BaseModel):
    """Of all tables of a copy. ``rows_expected`` is the server's guess, 0 where it has none.

    ``rows_per_second`` is of the last half minute. ``tables``: at most a hundred, first those that
    are read, then those that have the most rows to come.
    """

    rows_expected: int
    rows_per_second: float
    seconds_left: int | None
    tables: list[TableReading]

    @classmethod
    def of(cls, progress: SnapshotProgress | None, *, paused: bool = False) -> Reading | None:
        """From the store's message; None where nothing is read yet, or nothing any more."""
        if progress is None or not progress.reading:
            return None
        speed = 0.0 if paused else progress.rows_per_second
        return cls(
            rows_expected=progress.rows_expected,
            rows_per_second=speed,
            seconds_left=seconds_left(progress.rows, progress.rows_expected, speed),
            tables=[TableReading.of(one, speed) for one in progress.reads],
        )
