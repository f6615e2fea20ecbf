"""Reading a stretch of a server's binlog event by event, beside the puller: cold path only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cdc.binlog.compressed import plain_event
from cdc.binlog.control import Rotate
from cdc.binlog.events import EventType
from cdc.binlog.format_description import FormatDescription
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, checksum
from cdc.coord.messages import UpstreamInfo
from cdc.kernels import stream as S  # noqa: N812
from cdc.source.connection import open_connection
from cdc.source.errors import StreamBroken
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.settings import SourceSettings
from cdc.source.stream import open_stream, server_error


class DumpedEvent(NamedTuple):
    """An event and the file that holds it; ``body`` is without checksum, and never compressed.

    The body of a FORMAT_DESCRIPTION ends with its checksum, as its parser wants it.
    """

    file: str
    header: EventHeader
    body: bytes

    @property
    def type(self) -> int:
        """Type code."""
        return self.header.type_code


def events_between(
    info: UpstreamInfo, low: UpstreamPosition, high: UpstreamPosition, settings: SourceSettings
) -> Iterator[DumpedEvent]:
    """The events from ``low`` up to ``high``.

    ``low`` goes by file and offset where it has them, else by its GTIDs.
    """
    if low.file:
        low = replace(low, gtid=None)
    if (low.file, low.pos) == (high.file, high.pos):
        return
    end = (file_number(high.file), high.pos)
    for event in read_dump(info, low, settings):
        at = (file_number(event.file), event.header.next_position)
        # Events that are only sent, not stored, have no next position.
        passed = event.header.next_position and event.type != EventType.ROTATE
        if passed and at > end:
            return
        yield event
        if passed and at >= end:
            return


def read_dump(
    info: UpstreamInfo, position: UpstreamPosition, settings: SourceSettings
) -> Iterator[DumpedEvent]:
    """The events of :func:`dump_events`, each with its file."""
    file, trailer = position.file, 0
    for event in dump_events(info, position, settings):
        code = event[4]
        if code == EventType.ROTATE:
            # One that opens a dump comes before it is known how events end.
            signed = checksum(event[:-CHECKSUM_LENGTH]) == event[-CHECKSUM_LENGTH:]
            body = event[HEADER_LENGTH : len(event) - CHECKSUM_LENGTH * signed]
            yield DumpedEvent(file, EventHeader.parse(event), body)
            file = Rotate.parse(body).file
            continue
        if code == EventType.FORMAT_DESCRIPTION:
            body = event[HEADER_LENGTH:]
            trailer = FormatDescription.parse(body).trailer
            yield DumpedEvent(file, EventHeader.parse(event), body)
            continue
        if code == EventType.MARIADB_QUERY_COMPRESSED:
            event = plain_event(event, trailer=trailer)
        body = event[HEADER_LENGTH : len(event) - trailer]
        yield DumpedEvent(file, EventHeader.parse(event), body)


def dump_events(
    info: UpstreamInfo, position: UpstreamPosition, settings: SourceSettings
) -> Iterator[bytes]:
    """Events of a dump from ``position`` to the end that the binlog has now.

    Raises the error that the server sends, UpstreamGone where it closes the connection.
    """
    connection = open_connection(info, settings)
    stream = open_stream(connection, info, position, settings, only_head=True)
    state = np.zeros(S.STATE_SIZE, np.int64)
    state[S.SEQUENCE] = 1
    block = np.empty(1 << 18, np.uint8)
    out = np.empty(1 << 20, np.uint8)
    try:
        while stream.readable(settings.silence_s):
            n = stream.read_into(memoryview(block.data))
            at = 0
            while at < n:
                at, code = S.split(block, at, n, state, out)
                lo, whole, filled = 0, int(state[S.WHOLE]), int(state[S.FILLED])
                while lo < whole:
                    length = EventHeader.parse(out[lo : lo + HEADER_LENGTH].tobytes()).length
                    yield out[lo : lo + length].tobytes()
                    lo += length
                if code == S.SERVER_ERROR:
                    raise server_error(out[whole:filled].tobytes(), info, position)
                if code == S.END_OF_STREAM:
                    return
                if code == S.ROOM and whole == 0:
                    larger = np.empty(2 * out.size, np.uint8)
                    larger[:filled] = out[:filled]
                    out = larger
                elif code not in (S.DONE, S.ROOM):
                    raise StreamBroken("packets are damaged", object=f"upstream {info.name}")
                else:
                    out[: filled - whole] = out[whole:filled].copy()
                state[S.WHOLE], state[S.FILLED] = 0, filled - whole
    finally:
        stream.close()
