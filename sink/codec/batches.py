"""The batches of an encoding: what every format's ``encode`` does around its kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from cdc.base.ts import physical_ms
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import Buffer, Order, RowBatch
from sink.codec.contract import EncodedMessages, EncodeLimits
from sink.codec.limits import FIRST_ROOM, too_large


class EncodeStep(NamedTuple):
    """What a kernel has done: rows up to ``after`` of the order, in so many bytes and records.

    If it did none, ``error`` says why; ``needed`` are the bytes that the next row takes, or for
    another error than of room and size, where it is.
    """

    after: int
    size: int
    records: int
    error: int
    needed: int


def batches(
    rows: RowBatch,
    order: Order,
    limits: EncodeLimits,
    buffer: Callable[[int], Buffer] | None,
    encode: Callable[[int, int, Buffer], EncodeStep],
) -> Iterator[EncodedMessages]:
    """``encode(i, base_ms, out)`` for row ``i`` of the order and those behind it, and again.

    See ``MessageCodec.encode`` for ``buffer`` and what is raised.
    """
    room = limits.batch + FIRST_ROOM
    out = np.empty(room, np.uint8) if buffer is None else buffer(room)
    refs, i = rows.refs, 0
    while i < len(order):
        base_ms = physical_ms(int(refs[order[i], L.R_TS]))
        after, size, records, error, needed = encode(i, base_ms, out)
        if after > i:
            max_ms = physical_ms(int(refs[order[i:after], L.R_TS].max()))
            yield EncodedMessages(memoryview(out.data)[:size], i, after, base_ms, max_ms, records)
            i = after
            if buffer is not None and i < len(order):
                out = buffer(room)
        elif error == L.ERR_ROOM:
            out = np.empty(needed + limits.batch, np.uint8)
        elif error == L.ERR_TOO_LARGE:
            raise too_large(rows, int(order[i]), needed, limits.message)
        else:
            raise rows.row_error(error, needed, int(order[i]))
