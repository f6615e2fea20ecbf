"""In which event each row stands, and as which of its rows."""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import kernel, small
from cdc.kernels.crc import BYTES, CHECKSUM, LENGTH_AT
from cdc.kernels.memory import load8, load32
from cdc.kernels.rows import MATRIX, UPDATE_V1, UPDATE_V2, image_end

EVENT, NUMBER, POSITION, SIZE = 0, 1, 2, 3
"""Columns of places: offset of the event in the buffer, number of the row in it, from 0, and offset
of the event in the upstream's file."""

_NEXT_AT = 13  # in an event's header: the offset behind it in the file, 32 bits of it
_HALF, _MASK = np.int64(1) << 31, np.int64(0xFFFFFFFF)

I64 = types.int64
NUMBERS = types.int64[::1]


@small
def _position(buf, event, first, start):  # type: ignore[no-untyped-def]
    # Of an event of a run whose first lies at ``first``, and at ``start`` in the upstream's file.
    behind = np.int64(load32(buf, event + _NEXT_AT))
    if event == first or behind == 0:
        # MariaDB leaves the offset out within a transaction; its file has more than the log there,
        # texts of statements (ANNOTATE_ROWS), of which neither is told.
        return start + event - first
    # Events that the upstream had compressed are longer in the log.
    further = behind - load32(buf, event + LENGTH_AT) - start
    return start + ((further + _HALF) & _MASK) - _HALF


@kernel(I64(BYTES, MATRIX, NUMBERS, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX))
def place(buf, runs, starts, refs, tables, columns, hops, places):  # type: ignore[no-untyped-def]
    """Fill ``places`` int64[:, SIZE] for ``refs``, which ``rows.locate`` has found in ``runs``.

    ``refs`` are in that order; some may have been left out since. ``starts`` int64[:] are the
    offsets of the runs in the upstream's files. Returns how many were placed: fewer than there are
    only if they are of other runs.
    """
    r, bitmap = np.int64(-1), np.int64(-1)
    at = event = stop = limit = position = p = second = number = np.int64(0)
    update = False
    for i in range(refs.shape[0]):
        plan = refs[i, L.R_PLAN]
        if refs[i, L.R_BITMAP] != bitmap:
            bitmap = refs[i, L.R_BITMAP]
            while not at <= bitmap < stop:
                r += 1
                if r == runs.shape[0]:
                    return np.int64(i)
                at = event = runs[r, L.RUN_OFFSET]
                stop = at + runs[r, L.RUN_LENGTH]
            while event + load32(buf, event + LENGTH_AT) <= bitmap:
                event += load32(buf, event + LENGTH_AT)
            limit = event + load32(buf, event + LENGTH_AT) - CHECKSUM
            position = _position(buf, event, at, starts[r])
            code = load8(buf, event + 4)
            update = code in (UPDATE_V1, UPDATE_V2)
            size = (tables[plan, L.T_COLUMNS] + 7) >> 3
            second = bitmap + size if update else bitmap
            p, number = second + size, np.int64(-1)
        # Both rows of an UPDATE that was split lie within its two images.
        image = max(refs[i, L.R_BEFORE], refs[i, L.R_AFTER])
        full = refs[i, L.R_KIND] & L.PARTIAL == 0
        while p <= image:
            p = image_end(buf, p, limit, bitmap, full, plan, tables, columns, hops)
            if update and p >= 0:
                p = image_end(buf, p, limit, second, full, plan, tables, columns, hops)
            if p < 0:
                return np.int64(i)
            number += 1
        places[i, EVENT] = event
        places[i, NUMBER] = number
        places[i, POSITION] = position
    return np.int64(refs.shape[0])
