"""Checksums of events by the kernel, which is some ten times as fast as zlib for large ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdc.binlog.header import CHECKSUM_LENGTH
from cdc.kernels.crc import crc32


def checksum(event_without_crc: bytes | NDArray[np.uint8]) -> bytes:
    """The same four bytes as :func:`cdc.binlog.header.checksum`."""
    buf = np.frombuffer(event_without_crc, np.uint8)
    return int(crc32(buf, 0, len(buf), 0)).to_bytes(CHECKSUM_LENGTH, "little")
