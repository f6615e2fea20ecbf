"""What is left of the events of a file of rows: those that keep all are taken as they lie there."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, checksum
from cdc.binlog.rows_header import RowsHeader
from cdc.changelog.index import Runs
from cdc.rows.batch import RowBatch
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.snapshot.chunk_events import ChunkEvents, EventForm
from cdc.snapshot.images import RowImages
from cdc.snapshot.rows_reader import RowBlock
from cdc.snapshot.touched import rows_plan, run_matrix
from tests import seeds

TABLE = parse_create_table(
    "CREATE TABLE t (id INT NOT NULL PRIMARY KEY)",
    Session(),
    schema="s",
    charset="utf8mb4",
    collation=None,
)
_ROW = 1 + 4  # bits of NULLs, and the INT
_ROWS = 1000
_EVENT = 1 << 8


@pytest.fixture
def batch(tmp_path: Path) -> RowBatch:
    """Rows 0 to 999, in some dozens of events."""
    return _batch(tmp_path / "chunk", 1)


def _batch(path: Path, number: int) -> RowBatch:
    texts = [str(row).encode() for row in range(_ROWS)]
    data = b"".join((len(t) + 1).to_bytes(4, "little") + bytes([len(t)]) + t for t in texts)
    images = RowImages(TABLE, "mariadb", table_number=number, event_bytes=_EVENT)
    block = RowBlock(np.frombuffer(data, np.uint8), _ROWS)
    path.write_bytes(b"".join(images.events(block)))
    whole = Runs.build(1, length=path.stat().st_size, rows=_ROWS)
    plan = rows_plan(TABLE, images.table_map)
    return RowBatch(np.memmap(path, np.uint8, "r"), run_matrix(whole), _ROWS, plan, "chunk")


def _events(data: bytes) -> list[bytes]:
    """Whole events, whose checksums are right."""
    found, at = list[bytes](), 0
    while at < len(data):
        event = data[at : at + EventHeader.parse(data, at).length]
        assert event[-CHECKSUM_LENGTH:] == checksum(event[:-CHECKSUM_LENGTH])
        found.append(event)
        at += len(event)
    return found


def _form(batch: RowBatch) -> EventForm:
    """As the first events of a file are."""
    table_map, rows = _events(bytes(batch.buf))[:2]
    body = rows[HEADER_LENGTH:-CHECKSUM_LENGTH]
    return EventForm(table_map, rows[4], body[: RowsHeader.parse(rows[4], body).rows_at])


def _ids(images: bytes) -> list[int]:
    assert len(images) % _ROW == 0
    return [
        int.from_bytes(images[at + 1 : at + _ROW], "little") for at in range(0, len(images), _ROW)
    ]


def _left(events: ChunkEvents, form: EventForm, most_bytes: int) -> tuple[list[int], list[int]]:
    """All ids that are left, in order, and those of events that are as written."""
    ids, whole = list[int](), list[int]()
    for as_written, first, last in events.stretches(form):
        if not as_written:
            for count, images in events.images(first, last):
                assert len(_ids(images)) == count
                ids += _ids(images)
            continue
        for data, lengths, rows in events.as_written(form, first, last, most_bytes):
            assert len(data) == lengths.sum()
            assert len(data) <= most_bytes + lengths[-1]
            read = _events(bytes(data))
            assert [len(m) + len(r) for m, r in zip(read[::2], read[1::2], strict=True)] == [
                *lengths
            ]
            for event, count in zip(read[1::2], rows, strict=True):
                found = _ids(event[HEADER_LENGTH + len(form.head) : -CHECKSUM_LENGTH])
                assert len(found) == count
                ids += found
                whole += found
    return ids, whole


def _whole(batch: RowBatch, kept: NDArray[np.bool_], form: EventForm) -> list[int]:
    """Ids of events that keep all of their rows, by reading the file."""
    found = list[int]()
    for event in _events(bytes(batch.buf))[1::2]:
        ids = _ids(event[HEADER_LENGTH + len(form.head) : -CHECKSUM_LENGTH])
        found += ids if kept[ids].all() else []
    return found


@pytest.mark.parametrize("case", range(8))
def test_what_is_kept_is_left_and_whole_events_are_as_written(batch: RowBatch, case: int) -> None:
    draw = random.Random(seeds.seed() + case)
    kept = np.ones(_ROWS, np.bool_)
    for _ in range(draw.choice([0, 1, 3, 10, 300])):
        first = draw.randrange(_ROWS)
        kept[first : first + draw.choice([1, 1, 5, 200])] = False
    form = _form(batch)
    ids, whole = _left(ChunkEvents(batch, kept), form, draw.choice([1, 1000, 1 << 20]))
    assert ids == np.flatnonzero(kept).tolist()
    assert whole == _whole(batch, kept, form)


def test_a_file_with_something_before_its_events_is_whole_where_all_rows_stay(
    tmp_path: Path,
) -> None:
    batch = _batch(tmp_path / "chunk", 1)
    form, head = _form(batch), b"head"
    path = tmp_path / "behind"
    path.write_bytes(head + bytes(batch.buf))
    there = Runs.build(1, offset=len(head), length=len(batch.buf), rows=_ROWS)
    moved = RowBatch(
        np.memmap(path, np.uint8, "r"), run_matrix(there), _ROWS, batch.plans, "behind"
    )
    kept = np.ones(_ROWS, np.bool_)
    places = ChunkEvents(moved, kept, len(head)).all_as_written(form)
    assert places is not None
    offsets, lengths, rows = places
    events = _events(bytes(batch.buf))
    assert lengths.tolist() == [
        len(m) + len(r) for m, r in zip(events[::2], events[1::2], strict=True)
    ]
    assert offsets.tolist() == (len(head) + np.cumsum(lengths) - lengths).tolist()
    assert rows.sum() == _ROWS
    # Unless something lies there that nobody knows of, the form differs, or a row goes.
    assert ChunkEvents(moved, kept).all_as_written(form) is None
    assert ChunkEvents(moved, kept, len(head)).all_as_written(replace(form, code=0)) is None
    kept[_ROWS // 2] = False
    assert ChunkEvents(moved, kept, len(head)).all_as_written(form) is None


def test_events_of_another_form_are_not_taken_as_they_are(batch: RowBatch, tmp_path: Path) -> None:
    """As of a part of a logical table, or of a server of the other family."""
    form, all_of_them = _form(batch), np.ones(_ROWS, np.bool_)
    other = _form(_batch(tmp_path / "other", 2))
    assert other.table_map != form.table_map
    head = bytes([*form.head[:-1], 0])
    for wanted in (other, replace(form, code=form.code + 1), replace(form, head=head)):
        ids, whole = _left(ChunkEvents(batch, all_of_them), wanted, 1 << 20)
        assert (ids, whole) == (list(range(_ROWS)), [])
    assert _left(ChunkEvents(batch, all_of_them), form, 1 << 20)[1] == list(range(_ROWS))
