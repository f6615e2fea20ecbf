"""Which located rows pass, by the kind of their event: masks over the references of a window.

Where rows are spread by columns, or a format wants it, an UPDATE that changes a key is located as a
DELETE and an INSERT. For the filter it is still one UPDATE: both halves pass, or none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cdc.kernels import layout as L  # noqa: N812
from filter.event_types import DELETE, INSERT, UPDATE
from filter.events import EventFilter

_BITS = {INSERT: 1 << L.KIND_INSERT, UPDATE: 1 << L.KIND_UPDATE, DELETE: 1 << L.KIND_DELETE}


def kinds(refs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The kind (``layout.KIND_*``) of the upstream's event for each of ``refs[:, R_SIZE]``.

    ``refs`` are those of ``RowBatch``, in their order.
    """
    found = refs[:, L.R_KIND] & L.KIND_MASK
    firsts = first_halves(refs)
    found[firsts] = found[firsts + 1] = L.KIND_UPDATE
    return found


def first_halves(refs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of the DELETE halves of UPDATEs that were split; each INSERT half is the next row."""
    kind = refs[:, L.R_KIND] & L.KIND_MASK
    split = (kind[:-1] == L.KIND_DELETE) & (kind[1:] == L.KIND_INSERT)
    # No two events of a transaction have the same row number.
    for column in (L.R_ROW, L.R_TS, L.R_PLAN):
        split &= refs[:-1, column] == refs[1:, column]
    return np.flatnonzero(split)


class EventRows:
    """The kinds of rows that event filters ignore, for the tables of a job."""

    def __init__(self, events: EventFilter, tables: Sequence[tuple[str, str]]) -> None:
        """``tables``: (schema, name) by plan index."""
        ignored = [sum(_BITS[e] for e in events.ignored_dml(*name)) for name in tables]
        self._ignored = np.array(ignored, np.int64)

    def __bool__(self) -> bool:
        """Whether any row could be ignored."""
        return bool(self._ignored.any())

    def keep(self, refs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool[len(refs)]: the rows that pass."""
        passing: NDArray[np.bool_] = (self._ignored[refs[:, L.R_PLAN]] >> kinds(refs)) & 1 == 0
        return passing
