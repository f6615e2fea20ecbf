"""Rows of XA transactions at their commits, against a book that is kept step by step."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs
from cdc.changelog.prepared import PreparedBook
from cdc.source.committed_rows import with_rows, without_prepare
from tests import seeds

Row = tuple[int, int, int, int, int, int, int, int]


def _log(rng: random.Random, reused: bool) -> Runs:
    """Transactions that are prepared and end in any order, local ones between.

    Some are prepared again before they end, as a server does that has lost them.
    """
    rows: list[dict[str, int]] = []
    open_, ended, ts, following = [], [], 100, 0
    for _ in range(rng.randrange(1, 120)):
        ts += 1
        place = {"gtid_seq": ts, "gtid_source": rng.randrange(3), "commit_ts": ts}
        chosen = rng.random()
        if chosen < 0.45:
            number = following
            if reused and ended and rng.random() < 0.3:
                number = ended.pop(rng.randrange(len(ended)))
            if not reused and open_ and rng.random() < 0.3:
                number = open_.pop(rng.randrange(len(open_)))
            following += 1
            for _ in range(rng.randrange(4)):
                one = {
                    "kind": RunKind.PREPARE,
                    "xid": number,
                    "table": 1,
                    "rows": rng.randrange(1, 5),
                }
                rows.append({**place, **one, "commit_ts": 0})
            rows.append(
                {**place, "kind": RunKind.PREPARE, "xid": number, "flags": 1, "commit_ts": 0}
            )
            open_.append(number)
        elif chosen < 0.85 and open_:
            number = open_.pop(rng.randrange(len(open_)))
            ended.append(number)
            kind = rng.choice([RunKind.COMMIT, RunKind.COMMIT, RunKind.ROLLBACK])
            rows.append({**place, "kind": kind, "xid": number, "flags": 1})
        else:
            rows.append({**place, "kind": RunKind.DML, "table": 2, "rows": 3, "flags": 1})
    names = ("commit_ts", "kind", "xid", "table", "rows", "flags", "gtid_seq", "gtid_source")
    defaults = {"xid": -1, "table": -1, "rows": 0, "flags": 0}
    columns = {n: [int(r.get(n, defaults.get(n, 0))) for r in rows] for n in names}
    return Runs.build(len(rows), **columns, offset=np.arange(len(rows)), length=1, segment=4)


def _expected(runs: Runs) -> list[Row]:
    """One row after the other, with a dict."""
    book: dict[int, list[int]] = {}
    found: list[Row] = []
    for i in range(len(runs)):
        number, kind = int(runs.xid[i]), int(runs.kind[i])
        if kind == RunKind.PREPARE:
            if (i and runs.table[i - 1] < 0) or not i or runs.xid[i - 1] != number:
                # The first row of a PREPARE: what was prepared before is lost.
                book[number] = []
            book[number].append(i)
        elif kind in (RunKind.COMMIT, RunKind.ROLLBACK):
            held = [j for j in book.pop(number, []) if runs.table[j] >= 0]
            first = 0
            for j in held if kind == RunKind.COMMIT else ():
                flag = LAST_OF_TRANSACTION if j == held[-1] else 0
                name = int(runs.commit_ts[i]), int(runs.gtid_seq[i]), int(runs.gtid_source[i])
                found.append((int(RunKind.DML), number, j, flag, first, *name))
                first += int(runs.rows[j])
        found.append(_row(runs, i))
    return found


def _row(runs: Runs, i: int) -> Row:
    c = runs
    values = (c.kind, c.xid, c.offset, c.flags, c.first_row, c.commit_ts, c.gtid_seq, c.gtid_source)
    kind, xid, offset, flags, first, ts, seq, source = (int(v[i]) for v in values)
    return kind, xid, offset, flags, first, ts, seq, source


@pytest.mark.parametrize("case", range(60))
def test_rows_come_with_their_commit_however_the_log_is_cut(case: int) -> None:
    rng = random.Random(seeds.seed() * 1000 + case)
    runs = _log(rng, reused=False)
    book, found, at = PreparedBook(), [], 0
    while at < len(runs):
        end = min(len(runs), at + rng.randrange(1, 40))
        piece = runs.slice(at, end)
        assert not len(without_prepare(piece, book.rows()))
        whole = with_rows(piece, book.rows())
        found += [_row(whole, i) for i in range(len(whole))]
        before = set(book.xids())
        ended = book.apply(whole)
        prepared = {int(x) for x in piece.xid[piece.kind == RunKind.PREPARE]}
        assert set(ended) <= before | prepared
        assert set(book.xids()) == (before | prepared) - set(ended)
        at = end
    assert found == _expected(runs)


@pytest.mark.parametrize("case", range(60))
def test_a_book_knows_what_has_not_ended(case: int) -> None:
    """Of a log of an older version too, where a number is used again behind its end."""
    rng = random.Random(seeds.seed() * 1000 + case)
    runs = _log(rng, reused=True)
    live: dict[int, list[int]] = {}
    for i in range(len(runs)):
        if runs.kind[i] == RunKind.PREPARE:
            live.setdefault(int(runs.xid[i]), []).append(i)
        elif runs.kind[i] != RunKind.DML:
            live.pop(int(runs.xid[i]), None)
    book, at = PreparedBook(), 0
    while at < len(runs):
        end = min(len(runs), at + rng.randrange(1, 40))
        book.apply(runs.slice(at, end))
        at = end
    assert book.xids() == sorted(live)
    for number, rows in live.items():
        assert book.rows_of(number).offset.tolist() == [r for r in rows if runs.table[r] >= 0]
    assert book.segments() == dict.fromkeys(sorted(live), 4)


def test_a_commit_of_what_nobody_prepared() -> None:
    runs = Runs.build(3, kind=[RunKind.PREPARE, RunKind.COMMIT, RunKind.COMMIT], xid=[1, 1, 2])
    assert without_prepare(runs, Runs.empty()).tolist() == [2]
    known = Runs.build(1, kind=RunKind.PREPARE, xid=2)
    assert not len(without_prepare(runs, known))
