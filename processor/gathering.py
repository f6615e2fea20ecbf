"""Runs in pieces for the kernels: as they lie in a segment, or gathered out of several.

Transactions of several nodes lie in several logs, rows of each in turn. A call of the kernels for
each stretch of one segment would cost far more than its rows, so what changes often is copied. A
gathered buffer begins as a segment does, with a FORMAT_DESCRIPTION: that of all its segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, MAGIC, EventHeader
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.index import Runs
from cdc.changelog.names import data_name
from cdc.changelog.reader import ChangeLog
from cdc.kernels.gather import gather
from cdc.rows.batch import Buffer
from cdc.snapshot.log import is_snapshot

# Rows that are located at once: large enough for the kernels, small enough for the caches.
CHUNK_ROWS = 32_768
# Bytes that are gathered at once, but for a run that has more.
_GATHERED_BYTES = 16 << 20
# Stretches of one segment with fewer rows than this, on average, are gathered.
_STRETCH_ROWS = 2048
_SAID = slice(len(MAGIC) + HEADER_LENGTH, -CHECKSUM_LENGTH)


@dataclass(frozen=True, slots=True)
class GatheredFrom:
    """Where gathered bytes lie: ``places`` (int64, rising) in the buffer, and what is there."""

    runs: Runs
    places: NDArray[np.int64]

    def name(self, at: int) -> str:
        """File and offset of a byte of the buffer, for errors."""
        run = max(0, int(np.searchsorted(self.places, at, "right")) - 1)
        offset = int(self.runs.offset[run]) + at - int(self.places[run])
        return f"{data_name(int(self.runs.segment[run]))}:{offset}"


@dataclass(frozen=True, slots=True)
class RunPiece:
    """Runs whose offsets count in ``buf``; ``origin`` where it is no segment."""

    runs: Runs
    buf: Buffer
    name: str
    snapshot: bool
    origin: GatheredFrom | None = None


def pieces(log: ChangeLog, runs: Runs) -> Iterator[RunPiece]:
    """All of ``runs``, in their order, at most about CHUNK_ROWS rows at a time.

    Raises LogCollected, LogCorrupt.
    """
    for chunk in _cut(runs):
        switches = np.flatnonzero(np.diff(chunk.segment) != 0) + 1
        if len(switches) and int(chunk.rows.sum()) < _STRETCH_ROWS * (len(switches) + 1):
            heads = [_head(log, n) for n in np.unique(chunk.segment).tolist()]
            # Who wrote it and when may differ, what it says of the events may not.
            if len({head[_SAID] for head in heads}) == 1:
                yield _gathered(log, chunk, heads[0])
                continue
        lo = 0
        for hi in [*switches.tolist(), len(chunk)]:
            part, segment = chunk.slice(lo, hi), int(chunk.segment[lo])
            yield RunPiece(part, log.segment(segment), data_name(segment), is_snapshot(segment))
            lo = hi


def _cut(runs: Runs) -> Iterator[Runs]:
    if not len(runs):
        return
    rows = np.cumsum(runs.rows, dtype=np.int64) // CHUNK_ROWS
    size = np.cumsum(runs.length) // _GATHERED_BYTES
    # Rows that were there before are inserts, whatever their events say.
    cuts = (np.diff(rows) != 0) | (np.diff(runs.segment < 0) != 0)
    cuts |= np.diff(size) != 0
    lo = 0
    for hi in [*(np.flatnonzero(cuts) + 1).tolist(), len(runs)]:
        yield runs.slice(lo, hi)
        lo = hi


def _head(log: ChangeLog, segment: int) -> bytes:
    """What a segment begins with: its magic and its FORMAT_DESCRIPTION."""
    data = log.segment(segment)
    at = len(MAGIC)
    length = EventHeader.parse(data[at : at + HEADER_LENGTH].tobytes()).length
    return data[: at + length].tobytes()


def _gathered(log: ChangeLog, runs: Runs, head: bytes) -> RunPiece:
    ends = len(head) + np.cumsum(runs.length)
    places = ends - runs.length
    buf = np.empty(int(ends[-1]), np.uint8)
    buf[: len(head)] = np.frombuffer(head, np.uint8)
    for segment in np.unique(runs.segment).tolist():
        ours = runs.segment == segment
        begins, lengths, to = runs.offset[ours], runs.length[ours], places[ours]
        bad = gather(log.segment(segment), begins, lengths, buf, to)
        if bad >= 0:
            raise LogCorrupt(
                "rows lie behind the end of their segment",
                object=data_name(segment),
                position=f"{data_name(segment)}:{int(begins[bad])}",
            )
    first = int(runs.segment[0])
    moved = replace(runs, offset=places)
    return RunPiece(moved, buf, data_name(first), is_snapshot(first), GatheredFrom(runs, places))
