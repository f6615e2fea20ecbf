"""From raw blocks of the socket to whole plain events in a buffer, and through the walker."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdc.binlog.compressed import PLAIN, plain_event
from cdc.binlog.events import EventType
from cdc.binlog.header import check_checksum, checksum
from cdc.binlog.payload import payload_events
from cdc.coord.messages import UpstreamInfo
from cdc.kernels import stream as S  # noqa: N812
from cdc.kernels.index import add_checksums
from cdc.source.cold import ColdEvents
from cdc.source.errors import StreamBroken, UpstreamGone
from cdc.source.settings import SourceSettings
from cdc.source.stream import server_error
from cdc.source.walker import CHECKSUM, HEADER, Walker

_LENGTH = slice(9, 13)


class Intake:
    """Owns the buffers of one connection; memory is bounded by them and by the largest event."""

    def __init__(
        self, walker: Walker, cold: ColdEvents, info: UpstreamInfo, settings: SourceSettings
    ) -> None:
        self.walker = walker
        self.cold = cold
        self._info = info
        self._room = settings.buffer_bytes
        self._buffer = np.empty(self._room, np.uint8)
        self._plain = np.empty(0, np.uint8)
        self._split = np.zeros(S.STATE_SIZE, np.int64)
        # The packets of a dump are numbered on from the command's, which has 0.
        self._split[S.SEQUENCE] = 1
        self._format_known = False

    def take(self, block: NDArray[np.uint8], n: int) -> None:
        """Take ``block[:n]`` as it came from the socket."""
        at = 0
        while at < n:
            at, code = S.split(block, at, n, self._split, self._buffer)
            self._walk(int(self._split[S.WHOLE]))
            if code == S.DONE:
                continue
            if code == S.ROOM:
                self._grow()
                continue
            raise self._error(code)
        if len(self._buffer) > self._room and self._split[S.FILLED] <= self._room // 2:
            smaller = np.empty(self._room, np.uint8)
            smaller[: self._split[S.FILLED]] = self._buffer[: self._split[S.FILLED]]
            self._buffer = smaller

    def _walk(self, whole: int) -> None:
        lo = 0
        while lo < whole:
            if not self._format_known or not self.cold.checksums:
                lo = self._unchecked(lo, whole)
                continue
            lo = self.walker.walk(self._buffer, lo, whole, self.cold.handle)
            if lo < whole:
                lo = self._left_to_us(lo)
        filled = int(self._split[S.FILLED])
        if whole:
            self._buffer[: filled - whole] = self._buffer[whole:filled].copy()
        self._split[S.WHOLE], self._split[S.FILLED] = 0, filled - whole

    def _left_to_us(self, lo: int) -> int:
        event = self._event(lo)
        if event[4] == EventType.FORMAT_DESCRIPTION:
            self.cold.format_description(event)
        else:
            self._expand_event(event)
        return lo + len(event)

    def _grow(self) -> None:
        # Only an event that fills the whole buffer gets here: room for it, and no more.
        if self._split[S.FILLED] < len(self._buffer):
            return
        length = int.from_bytes(self._buffer[_LENGTH].tobytes(), "little")
        larger = np.empty(max(length + CHECKSUM, len(self._buffer) + 1), np.uint8)
        larger[: len(self._buffer)] = self._buffer
        self._buffer = larger

    def _event(self, at: int) -> bytes:
        length = int.from_bytes(self._buffer[at + 9 : at + 13].tobytes(), "little")
        return self._buffer[at : at + length].tobytes()

    # --- without checksums ---------------------------------------------------------------------

    def _unchecked(self, lo: int, whole: int) -> int:
        # Before the first FORMAT_DESCRIPTION only it and ROTATE come; they say how events end.
        if not self._format_known:
            event = self._event(lo)
            if event[4] == EventType.FORMAT_DESCRIPTION:
                self.cold.format_description(event)
                self._format_known = True
            elif event[4] == EventType.ROTATE:
                self.cold.handle(self._with_checksum_maybe(event))
            elif event[4] not in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
                raise StreamBroken("events before a FORMAT_DESCRIPTION", object=self._info.name)
            return lo + len(event)
        end = lo
        while end < whole:
            length = int.from_bytes(self._buffer[end + 9 : end + 13].tobytes(), "little")
            if self._buffer[end + 4] == EventType.FORMAT_DESCRIPTION:
                break
            if length < HEADER or end + length > whole:
                raise StreamBroken("an event has an impossible length", object=self._info.name)
            end += length
        if end == lo:
            event = self._event(lo)
            self.cold.format_description(event)
            return lo + len(event)
        return self._walk_copy(lo, end)

    def _walk_copy(self, lo: int, hi: int) -> int:
        # 19 bytes is the smallest event, so a quarter more is always enough for the checksums.
        size = (hi - lo) * 5 // 4 + 64
        if len(self._plain) < size:
            self._plain = np.empty(size, np.uint8)
        end = add_checksums(self._buffer, lo, hi, self._plain, 0)
        if end < 0:
            raise StreamBroken("an event has an impossible length", object=self._info.name)
        at = 0
        while at < end:
            at = self.walker.walk(self._plain, at, end, self.cold.handle)
            if at < end:
                length = int.from_bytes(self._plain[at + 9 : at + 13].tobytes(), "little")
                self._expand_event(self._plain[at : at + length].tobytes())
                at += length
        return hi

    def _with_checksum_maybe(self, event: bytes) -> bytes:
        # Whether a leading ROTATE has a CRC is not announced: it has if the last bytes are one.
        if checksum(event[:-CHECKSUM]) == event[-CHECKSUM:]:
            return event
        return event + bytes(CHECKSUM)

    # --- compressed ----------------------------------------------------------------------------

    def _expand_event(self, event: bytes) -> None:
        check_checksum(event, position=self.walker.here())
        if event[4] in PLAIN:
            self._walk_plain(event)
            return
        next_position = event[13:17]
        batch = bytearray()
        for inner in payload_events(event[HEADER:-CHECKSUM]):
            length = (len(inner) + CHECKSUM).to_bytes(4, "little")
            # Next positions stand still inside and arrive at the payload's end with the last event.
            whole = inner[:9] + length + bytes(4) + inner[17:]
            batch += whole + checksum(whole)
            if len(batch) >= self._room:
                self._walk_payload(batch)
                batch = bytearray()
        self._walk_payload(batch)
        self.walker.pass_event(bytes(13) + next_position)
        self.walker.mark_boundary()

    def _walk_plain(self, event: bytes) -> None:
        plain = np.frombuffer(plain_event(event, trailer=CHECKSUM), np.uint8)
        after = self.walker.behind(len(event))
        self.walker.walk_all(plain, self.cold.handle)
        # Without a next position the kernel counted the plain length, which the upstream has not.
        if event[13:17] == bytes(4):
            self.walker.upstream_pos = after

    def _walk_payload(self, batch: bytearray) -> None:
        data = np.frombuffer(batch, np.uint8)
        pos = self.walker.upstream_pos
        self.walker.walk_all(data, self.cold.handle)
        self.walker.upstream_pos = pos

    def _error(self, code: int) -> Exception:
        name, position = f"upstream {self._info.name}", self.walker.boundary
        if code == S.SERVER_ERROR:
            lo, hi = int(self._split[S.WHOLE]), int(self._split[S.FILLED])
            return server_error(self._buffer[lo:hi].tobytes(), self._info, position)
        if code == S.END_OF_STREAM:
            return UpstreamGone("the server ended the stream", object=name, position=str(position))
        return StreamBroken(
            f"packets of the stream are damaged ({code})", object=name, position=str(position)
        )
