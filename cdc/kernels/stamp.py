"""Events that are moved to another file: their time, server and end are written, and their CRC."""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import kernel
from cdc.kernels.crc import CHECKSUM, HEADER, LENGTH_AT, crc32
from cdc.kernels.memory import load32, store32

_I64 = types.int64


@kernel(types.UniTuple(_I64, 2)(types.uint8[::1], _I64, _I64, _I64, _I64))
def stamp(buf, size, position, timestamp, server_id):  # type: ignore[no-untyped-def]
    """Write headers and CRCs of the whole events of ``buf[:size]``, which will lie at ``position``.

    ``timestamp`` in seconds. Returns ``(error, offset)``.
    """
    if size < 0 or size > buf.size:
        return L.ERR_RUN, np.int64(0)
    at = np.int64(0)
    while at < size:
        if at + HEADER + CHECKSUM > size:
            return L.ERR_EVENT, at
        length = load32(buf, at + LENGTH_AT)
        if length < HEADER + CHECKSUM or at + length > size:
            return L.ERR_EVENT, at
        store32(buf, at, timestamp)
        store32(buf, at + 5, server_id)
        store32(buf, at + 13, position + at + length)
        end = at + length - CHECKSUM
        store32(buf, end, np.int64(crc32(buf, at, end, np.uint32(0))))
        at += length
    return L.OK, np.int64(-1)
