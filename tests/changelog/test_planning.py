"""``runs`` and ``end_position`` against a naive model, transaction by transaction."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import hypothesis
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.base.position import Position
from cdc.changelog.reader import ChangeLog
from tests.changelog.logs import ddl, dml, open_log
from tests.seeds import seed


@dataclass(frozen=True)
class Model:
    """One run as the model sees it."""

    ts: int
    table: int
    first: int
    rows: int
    size: int

    def inside(self, lo: Position, hi: Position) -> bool:
        return any(lo < Position(self.ts, self.first + k) <= hi for k in range(1, self.rows + 1))


TRANSACTIONS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=4),
    min_size=1,
    max_size=12,
)
PLACES = st.tuples(st.integers(0, 13), st.one_of(st.none(), st.integers(0, 9)))


def _position(place: tuple[int, int | None], count: int) -> Position:
    ts, row = min(place[0], count) * 10, place[1]
    return Position(ts) if row is None else Position(ts, row)


def _write(folder: Path, transactions: list[list[tuple[int, int]]]) -> None:
    writer = open_log(folder, segment_bytes=4096)
    for i, parts in enumerate(transactions, 1):
        dml(writer, i * 10, parts, tag=b"z" * 300)
        if i % 3 == 0:
            ddl(writer, i * 10 + 5, "create table x (a int)")
        writer.commit(i * 10 + 5, {})
    writer.close()


def _model(log: ChangeLog) -> list[Model]:
    everything = log.runs(Position(0), Position(1 << 40))
    return [
        Model(*(int(x) for x in row))
        for row in zip(
            everything.commit_ts,
            everything.table,
            everything.first_row,
            everything.rows,
            everything.length,
            strict=True,
        )
    ]


def _check(
    log: ChangeLog,
    model: list[Model],
    lo: Position,
    hi: Position,
    tables: set[int] | None,
    max_bytes: int | None,
) -> None:
    got: list[Model] = []
    at = lo
    while True:
        runs = log.runs(at, hi, max_bytes=max_bytes, tables=tables)
        part = [
            next(m for m in model if (m.ts, m.first) == (int(ts), int(first)))
            for ts, first in zip(runs.commit_ts, runs.first_row, strict=True)
        ]
        if max_bytes is not None and len(part) > 1:
            assert sum(m.size for m in part) <= max_bytes
        got += part
        end = log.end_position(runs, hi)
        asked = [m for m in model if tables is None or m.table in tables]
        # Complete: nothing that was asked for lies up to the end and was not given.
        assert part == [m for m in asked if m.inside(at, end)]
        if end >= hi:
            break
        assert end > at
        later = [m for m in asked if m.ts == end.ts and m.first + m.rows > end.row]
        assert later or end.whole()
        at = end
    wanted = [m for m in model if m.inside(lo, hi) and (tables is None or m.table in tables)]
    assert got == wanted


@hypothesis.seed(seed())
@settings(max_examples=60, deadline=None, database=None)
@given(
    TRANSACTIONS,
    PLACES,
    PLACES,
    st.one_of(st.none(), st.sets(st.integers(0, 4), max_size=3)),
    st.one_of(st.none(), st.integers(1, 3000)),
)
def test_runs_equal_the_model(
    transactions: list[list[tuple[int, int]]],
    low: tuple[int, int | None],
    high: tuple[int, int | None],
    tables: set[int] | None,
    max_bytes: int | None,
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("os.fsync"),
        mock.patch("os.fdatasync"),
    ):
        _write(Path(folder), transactions)
        log = ChangeLog.open(Path(folder))
        model = _model(log)
        assert [(m.table, m.rows) for m in model] == [p for t in transactions for p in t]
        places = (_position(low, len(transactions)), _position(high, len(transactions)))
        _check(log, model, min(places), max(places), tables, max_bytes)
        log.close()


def test_nothing_above_resolved_is_given_or_claimed(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    dml(writer, 10, [(0, 1)])
    dml(writer, 20, [(0, 1)])
    writer.commit(15, {})
    log = ChangeLog.open(tmp_path)
    runs = log.runs(Position(0), Position(100))
    assert runs.commit_ts.tolist() == [10]
    assert log.end_position(runs, Position(100)) == Position(15)
    writer.close()


def test_a_cut_transaction_is_whole_if_the_rest_is_of_other_tables(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    dml(writer, 10, [(1, 2), (2, 5)])
    dml(writer, 20, [(1, 1)])
    writer.commit(20, {})
    log = ChangeLog.open(tmp_path)
    hi = Position(20)
    runs = log.runs(Position(0), hi, max_bytes=1, tables={1})
    assert runs.rows.tolist() == [2]
    assert log.end_position(runs, hi) == Position(10)
    runs = log.runs(Position(0), hi, max_bytes=1)
    assert log.end_position(runs, hi) == Position(10, 2)
    assert log.runs(Position(10, 2), hi).rows.tolist() == [5, 1]
    writer.close()
