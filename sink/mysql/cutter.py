"""What cuts rows into payloads of one statement each, by either way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from cdc.base.errors import InternalError
from cdc.kernels import apply as kernels
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import Buffer, Order, RowBatch
from cdc.rows.plan import Matrix
from sink.encoded import Encoded
from sink.mysql.errors import TargetRowTooLarge

_FIRST_ROOM = 64 << 10


class Cutter(ABC):
    """Rows in, payloads out; all of them lie in one array, each until the next is asked for."""

    sql: ClassVar[bool]
    """Whether payloads are SQL text; else events for a ``BINLOG`` statement."""

    # What a payload is called in errors.
    _form: ClassVar[str]

    def __init__(self) -> None:
        self._out: Buffer = np.empty(0, np.uint8)

    @abstractmethod
    def batches(
        self, located: RowBatch, runs: Matrix, order: Order, *, limit: int, max_message: int
    ) -> Iterator[Encoded]:
        """Payloads of at most ``limit`` bytes for ``located.refs[order]``, or of one row.

        ``runs`` are those that ``located`` was made of. Raises at the first row that cannot be
        written, after the payloads before it: ``TargetRowTooLarge`` if it takes more than
        ``max_message`` bytes.
        """

    def _source_flags(self, located: RowBatch, runs: Matrix) -> Order:
        """Flags of each reference's source event."""
        flags = np.empty(len(located.refs), np.int64)
        error, at = kernels.row_flags(located.buf, runs, located.refs, flags)
        if error != L.OK:
            raise InternalError(L.MESSAGES[error], object=located.position(at))
        return flags

    def _room(self, located: RowBatch, order: Order, most: int, times: int) -> Buffer:
        """An array to begin with: for ``times`` the bytes that the rows have, up to ``most``."""
        chosen = located.refs[order]
        before, after = chosen[:, L.R_BEFORE], chosen[:, L.R_AFTER]
        size = int((chosen[:, L.R_END] - np.where(before >= 0, before, after)).sum())
        return self._array(min(most, _FIRST_ROOM + times * size))

    def _array(self, room: int) -> Buffer:
        if self._out.size < room:
            self._out = np.empty(room, np.uint8)
        return self._out

    def _too_large(self, located: RowBatch, row: int, size: int, limit: int) -> TargetRowTooLarge:
        return TargetRowTooLarge(
            f"the row takes {size} bytes as {self._form}, the target's limit leaves {limit}",
            object=located.row_name(row),
            position=located.row_position(row),
            hint="raise max_allowed_packet of the target",
        )
