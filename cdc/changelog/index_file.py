"""The bytes of an index file: an Arrow IPC stream, one record batch per group commit.

The manifest keeps the CRC-32 of the whole file. Besides, every batch carries in its metadata
the CRC of all bytes before it, so that damage is not only noticed but placed.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa

from cdc.changelog.index import RUN_SCHEMA, Runs

CRC_KEY = b"crc_before"
_END_OF_STREAM = 8
_MARKER = 0xFFFFFFFF
_METADATA_MAX = 1 << 16


def _schema_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, RUN_SCHEMA).close()
    return bytes(sink.getvalue())[:-_END_OF_STREAM]


SCHEMA_BYTES = _schema_bytes()


def encode_batch(runs: Runs, crc_before: int) -> bytes:
    """The batch's message, to be put behind the file's bytes whose CRC is ``crc_before``."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, RUN_SCHEMA) as writer:
        writer.write_batch(runs.to_arrow(), custom_metadata={CRC_KEY: b"%08x" % crc_before})
    return bytes(memoryview(sink.getvalue())[len(SCHEMA_BYTES) : -_END_OF_STREAM])


def decode(data: bytes, *, whole: bool) -> Runs:
    """Runs of a file's bytes, or of whole batches from its middle. The CRC is checked already."""
    stream = pa.py_buffer(data if whole else SCHEMA_BYTES + data)
    return Runs.from_arrow(pa.ipc.open_stream(stream).read_all())


def damage_at(data: bytes) -> int:
    """Offset of the batch of a damaged file before which all is right; damage lies behind it.

    Damaged metadata is never parsed: a batch is known by the marker of an IPC message, followed
    by a metadata that holds the CRC of exactly the bytes before it.
    """
    words = np.frombuffer(data, "<u4", len(data) // 8 * 2)
    marked = (words[0::2] == _MARKER) & (words[1::2] < _METADATA_MAX)
    crc = trusted = at = 0
    for message in (np.flatnonzero(marked) * 8).tolist():
        crc = zlib.crc32(data[at:message], crc)
        at = message
        metadata_end = message + 8 + int(words[message // 4 + 1])
        if data.find(b"%08x" % crc, message, metadata_end) >= 0:
            trusted = message
    return trusted
