"""Pieces hold the bytes and the order of their runs, however often the segment changes."""

from __future__ import annotations

import random
from typing import Any, cast

import numpy as np
import pytest

from cdc.binlog.header import HEADER_LENGTH, MAGIC, EventHeader
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.index import Runs
from cdc.changelog.names import data_name
from cdc.changelog.reader import ChangeLog
from processor import gathering
from processor.gathering import RunPiece, pieces
from tests import seeds

_BYTES = 50_000
_HEAD = 250
_SAID = slice(len(MAGIC) + HEADER_LENGTH, _HEAD)


class _Log:
    """Segments of random bytes behind their heads; negative ones are a snapshot's.

    ``other``: a segment whose head is another one.
    """

    def __init__(self, rng: random.Random, other: int = 0) -> None:
        self.segments = {}
        for n in (-2, -1, 3, 4, 1 << 24 | 1):
            head = MAGIC + EventHeader(abs(n), 15, abs(n), _HEAD - len(MAGIC), _HEAD, 0).encode()
            said = bytes([n == other]) * (_HEAD - len(head))
            data = (head + said + rng.randbytes(_BYTES))[:_BYTES]
            self.segments[n] = np.frombuffer(data, np.uint8)

    def segment(self, number: int) -> Any:
        return self.segments[number]


def _all(log: _Log, runs: Runs) -> list[RunPiece]:
    return list(pieces(cast(ChangeLog, log), runs))


def _runs(rng: random.Random, log: _Log, count: int, stretch: int) -> Runs:
    segments: list[int] = []
    while len(segments) < count:
        segments += [rng.choice(list(log.segments))] * rng.randrange(1, 1 + stretch)
    lengths = np.array([rng.choice([0, 1, 31, 32, 33, 700]) for _ in range(count)])
    return Runs.build(
        count,
        commit_ts=np.arange(count),
        segment=segments[:count],
        offset=[rng.randrange(_BYTES - 700) for _ in range(count)],
        length=lengths,
        rows=[rng.choice([0, 1, 5, 40]) for _ in range(count)],
    )


@pytest.mark.parametrize("stretch", [1, 3, 400])
def test_every_run_has_its_bytes_and_its_place(
    stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "CHUNK_ROWS", 700)
    monkeypatch.setattr(gathering, "_STRETCH_ROWS", 60)
    monkeypatch.setattr(gathering, "_GATHERED_BYTES", 4000)
    rng = random.Random(seeds.seed() + stretch)
    log = _Log(rng)
    runs = _runs(rng, log, 900, stretch)
    found = _all(log, runs)
    assert np.concatenate([p.runs.commit_ts for p in found]).tolist() == list(range(900))
    at = 0
    for piece in found:
        for i in range(len(piece.runs)):
            lo, length = int(piece.runs.offset[i]), int(piece.runs.length[i])
            segment, offset = int(runs.segment[at]), int(runs.offset[at])
            wanted = log.segments[segment][offset : offset + length]
            assert piece.buf[lo : lo + length].tobytes() == wanted.tobytes()
            assert piece.snapshot == (segment < 0)
            if length > 1:
                place = f"{data_name(segment)}:{offset + 1}"
                name = piece.origin.name(lo + 1) if piece.origin else f"{piece.name}:{lo + 1}"
                assert name == place
            at += 1
        # As a sink finds out what the rows were written by.
        assert piece.buf[_SAID].tobytes() == log.segments[3][_SAID].tobytes()
    gathered = [p for p in found if p.origin is not None]
    # Long stretches stay where they lie, but for a switch in a piece that ends soon.
    copied = sum(int(p.runs.rows.sum()) for p in gathered) / int(runs.rows.sum())
    assert copied < 0.1 if stretch == 400 else copied > 0.2
    assert all(len(p.buf) <= _HEAD + 4000 + 700 for p in gathered)


def test_few_changes_are_not_copied() -> None:
    rng = random.Random(seeds.seed())
    log = _Log(rng)
    runs = Runs.build(4, segment=[3, 3, 4, 4], offset=[0, 10, 0, 10], length=10, rows=3000)
    found = _all(log, runs)
    assert [p.name for p in found] == [data_name(3), data_name(4)]
    assert all(
        p.origin is None and p.buf is log.segments[n] for p, n in zip(found, (3, 4), strict=True)
    )
    assert _all(log, runs.slice(0, 0)) == []


def test_segments_of_two_versions_stay_apart() -> None:
    rng = random.Random(seeds.seed())
    log = _Log(rng, other=4)
    runs = _runs(rng, log, 200, 2)
    for piece in _all(log, runs):
        said = log.segments[4 if piece.name == data_name(4) else 3][_SAID]
        assert piece.buf[_SAID].tobytes() == said.tobytes()
        assert piece.origin is None or 4 not in piece.origin.runs.segment


def test_rows_behind_the_end_of_a_segment() -> None:
    log = _Log(random.Random(1))
    runs = Runs.build(2, segment=[3, 4], offset=[0, _BYTES - 5], length=10, rows=1)
    with pytest.raises(LogCorrupt) as caught:
        _all(log, runs)
    assert caught.value.position == f"{data_name(4)}:{_BYTES - 5}"
