"""The events of a file of rows that were read, and what is left of them when some rows go.

A file is what ``cdc.snapshot.images`` makes, WRITE_ROWS events, each behind a TABLE_MAP, and may
have something before these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch

# Of the code in an event's header.
_CODE_AT = 4


@dataclass(frozen=True)
class EventForm:
    """What events of one table have in common: its TABLE_MAP, their code, what precedes rows."""

    table_map: bytes
    code: int
    head: bytes

    @property
    def bytes_before_rows(self) -> int:
        """Of the TABLE_MAP and of the event behind it, up to the first image."""
        return len(self.table_map) + HEADER_LENGTH + len(self.head)


class ChunkEvents:
    """``kept`` bool[rows]: those of the ``batch``, which is a whole file, that are left.

    ``begin``: where the first event of the file begins.
    """

    def __init__(self, batch: RowBatch, kept: NDArray[np.bool_], begin: int = 0) -> None:
        self._buf, self._begin = batch.buf, begin
        self._starts, self._ends = batch.refs[:, L.R_AFTER], batch.refs[:, L.R_END]
        self._kept = kept
        # Rows of one event lie one behind the other; between events there are their heads.
        edges = np.flatnonzero(self._starts[1:] != self._ends[:-1]) + 1
        self._edges = np.concatenate([[0], edges, [len(kept)]])

    def stretches(self, form: EventForm) -> Iterator[tuple[bool, int, int]]:
        """``(as written, first, last)``: events ``first <= i < last`` that are alike.

        Those that are as written are in this form, one behind the other, and keep all rows.
        """
        whole = np.logical_and.reduceat(self._kept, self._edges[:-1])
        if not self._is_in(form):
            whole[:] = False
        cuts = np.flatnonzero(whole[1:] != whole[:-1]) + 1
        for first, last in pairwise([0, *cuts.tolist(), len(whole)]):
            yield bool(whole[first]), first, last

    def all_as_written(self, form: EventForm) -> tuple[NDArray[np.int64], ...] | None:
        """``(offsets, lengths, rows)`` of all events, if all are in this form and keep all rows.

        Offsets are in the file; an event counts with its TABLE_MAP.
        """
        if not self._kept.all() or not self._is_in(form):
            return None
        begins, ends = self._bounds(form)
        return begins, ends - begins, np.diff(self._edges)

    def as_written(
        self, form: EventForm, first: int, last: int, most_bytes: int
    ) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]]:
        """``(data, lengths, rows)`` of such a stretch, in parts of about so many bytes.

        Each event counts with its TABLE_MAP.
        """
        begins, ends = (bounds[first:last] for bounds in self._bounds(form))
        rows = np.diff(self._edges)[first:last]
        part = (begins - begins[0]) // most_bytes
        cuts = np.flatnonzero(np.diff(part)) + 1
        for lo, hi in pairwise([0, *cuts.tolist(), len(rows)]):
            data = self._buf[begins[lo] : ends[hi - 1]]
            yield data, (ends - begins)[lo:hi], rows[lo:hi]

    def images(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, bytes]]:
        """``(rows, images)`` of what is left of each of these events; nothing of the others."""
        edges = self._edges[first : None if last is None else last + 1].tolist()
        for lo, hi in pairwise(edges):
            kept = self._kept[lo:hi]
            if kept.any():
                yield int(kept.sum()), self._joined(lo, hi, kept)

    def _joined(self, lo: int, hi: int, kept: NDArray[np.bool_]) -> bytes:
        """The kept ones of consecutive images."""
        starts, ends = self._starts[lo:hi], self._ends[lo:hi]
        edge = np.diff(kept.astype(np.int8), prepend=0, append=0)
        first, last = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1) - 1
        pairs = zip(starts[first].tolist(), ends[last].tolist(), strict=True)
        return b"".join(self._buf[a:b].tobytes() for a, b in pairs)

    def _bounds(self, form: EventForm) -> tuple[NDArray[Any], NDArray[Any]]:
        """Where events would begin and end, were they in this form."""
        begins = self._starts[self._edges[:-1]] - form.bytes_before_rows
        return begins, self._ends[self._edges[1:] - 1] + CHECKSUM_LENGTH

    def _is_in(self, form: EventForm) -> bool:
        """Whether the file is in this form. One hand has written it, so one event tells."""
        begins, ends = self._bounds(form)
        fits = begins[0] == self._begin and ends[-1] == len(self._buf)
        if not fits or (begins[1:] != ends[:-1]).any():
            return False
        opening = self._buf[self._begin : self._begin + form.bytes_before_rows].tobytes()
        header = opening[len(form.table_map) :]
        return (
            opening.startswith(form.table_map)
            and header[_CODE_AT] == form.code
            and header.endswith(form.head)
        )
