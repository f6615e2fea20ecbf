"""Writing transactions behind a stream's tail, into parts that nobody sees yet."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cdc.base.ts import Ts, physical_ms
from cdc.binlog.control import Rotate
from cdc.binlog.events import Dialect, EventType
from cdc.binlog.format_description import ChecksumAlgorithm, FormatDescription, version_number
from cdc.binlog.gtid import Gtid, MariadbGtidEvent, MariadbGtidFlags
from cdc.binlog.gtid_list import GtidList
from cdc.binlog.gtid_set import GtidSource, MariadbGtid
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, MAGIC, checksum
from cdc.binlog.writer import build_event
from cdc.changelog.files import sync_folder, write_at
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.stamp import stamp
from cdc.rows.transactions import GtidName
from sink.binlog.errors import BinlogGtidTagged, BinlogInternal
from sink.binlog.tail import Piece, Tail

_T = EventType
_FLUSH_BYTES = 1 << 20
_NO_SOURCE = GtidSource("00000000-0000-0000-0000-000000000000")
# A length that takes nine bytes, so that the true one can be put in its place.
_LONG = 1 << 32
_LENGTH_BYTES = 8
# Behind header, flags, uuid, number, clock type, clock, time, and the byte that says "eight bytes".
_LENGTH_AT = HEADER_LENGTH + 1 + 16 + 8 + 1 + 16 + 7 + 1
_MAY_HAVE_STATEMENTS = 1
_HAS_TIMES = (8, 0, 2)
_HAS_ANONYMOUS = (5, 7, 0)


def parsed_format(event: bytes) -> FormatDescription:
    """What a FORMAT_DESCRIPTION event of the upstream says, as a file of ours begins with it.

    A time of creation would tell replicas that the server was started, and to drop temporary
    tables.
    """
    found = FormatDescription.parse(event[HEADER_LENGTH:])
    return replace(found, created=0, checksum=ChecksumAlgorithm.CRC32)


class StreamWriter:
    """Writes whole transactions: ``begin``, ``event``, ``events`` …, ``end``; at last ``finish``.

    ``parts`` is where parts lie, ``stem`` how their names begin; ``first_number`` gives the number
    of the first file of a stream, ``file_name`` the name of a number. Raises OSError.
    """

    def __init__(
        self,
        parts: Path,
        stem: str,
        tail: Tail,
        file_size: int,
        first_number: Callable[[], int],
        file_name: Callable[[int], str],
    ) -> None:
        self.tail = tail
        self.pieces: list[Piece] = []
        self._parts = parts
        self._stem = stem
        self._file_size = file_size
        self._first_number = first_number
        self._file_name = file_name
        self._fd = -1
        self._part = ""
        self._buffer = bytearray()
        self._number = 0
        self._start = 0
        self._flushed = 0
        self._gtid_at = -1
        self._began = 0
        self._timestamp = self._server_id = 0

    @property
    def _end(self) -> int:
        return self._start + self._flushed + len(self._buffer)

    def begin(
        self,
        form: FormatDescription,
        gtid: GtidName | None,
        *,
        timestamp: int,
        server_id: int,
        ts: Ts,
        statement: bool,
    ) -> None:
        """Begin a transaction under its name; ``statement``: a single one, without BEGIN and end.

        A new file is begun where the last one is full, or of another version. ``timestamp`` in
        seconds is when it began, ``ts`` when it was committed.
        """
        self._timestamp, self._server_id = timestamp, server_id
        tail = self.tail
        if not tail.file or form.server_version != tail.version or self._full():
            self._next_file(form)
            tail = self.tail
        elif self._fd < 0:
            self._open(tail.file, tail.end)
        # A replica passes over the second transaction of one name. A CREATE TABLE … SELECT is one
        # transaction upstream, and two here; and of a table that had stopped rows come later.
        name = None if gtid == tail.last or ts <= tail.ts else gtid
        self._began, self._gtid_at = self._end, -1
        if form.dialect is Dialect.MARIADB:
            if name is not None:
                self._mariadb_gtid(name, statement=statement)
        elif name is not None or version_number(form.server_version) >= _HAS_ANONYMOUS:
            self._mysql_gtid(form, name, physical_ms(ts) * 1000, statement=statement)
        gtids = tail.gtids if name is None else tail.behind(name)
        last = gtid or tail.last
        count, ts = tail.count + 1, max(ts, tail.ts)
        self.tail = replace(tail, gtids=gtids, last=last, count=count, ts=ts)

    def event(self, code: int, body: bytes, flags: int = 0) -> None:
        """Write one event."""
        length = HEADER_LENGTH + len(body) + CHECKSUM_LENGTH
        self._take(
            build_event(
                code, body, timestamp=self._timestamp, server_id=self._server_id,
                next_position=(self._end + length) & 0xFFFFFFFF, flags=flags,
            )
        )  # fmt: skip

    def events(self, buffer: NDArray[np.uint8], size: int) -> None:
        """Write the events of ``buffer[:size]``; their headers are filled in there."""
        error, at = stamp(buffer, size, self._end, self._timestamp, self._server_id)
        if error != L.OK:
            raise BinlogInternal(L.MESSAGES[error], object=f"byte {at} of a statement")
        self._take(memoryview(buffer.data)[:size])

    def end(self) -> None:
        """End the transaction."""
        if self._gtid_at >= 0:
            self._tell_length(self._gtid_at, self._end - self._began)
        self.tail = replace(self.tail, end=self._end)

    def finish(self) -> None:
        """Make all parts durable; they are in ``pieces``."""
        if self._fd >= 0:
            self._close()
        if self.pieces:
            sync_folder(self._parts)

    def drop(self) -> None:
        """Remove the parts, as far as that goes: recovery does otherwise."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        for name in (self._part, *(piece.part for piece in self.pieces)):
            with suppress(OSError):
                (self._parts / name).unlink()

    def _full(self) -> bool:
        return self.tail.end >= self._file_size

    def _next_file(self, form: FormatDescription) -> None:
        tail = self.tail
        number = tail.file + 1 if tail.file else self._first_number()
        if tail.file:
            if self._fd < 0:
                self._open(tail.file, tail.end)
            self.event(_T.ROTATE, Rotate(len(MAGIC), self._file_name(number)).encode())
            self._close()
        self._open(number, 0)
        self._take(MAGIC)
        self.event(_T.FORMAT_DESCRIPTION, form.encode())
        previous = tail.previous(form.dialect)
        listed = isinstance(previous, GtidList)
        self.event(_T.MARIADB_GTID_LIST if listed else _T.PREVIOUS_GTIDS, previous.encode())
        self.tail = replace(tail, file=number, end=self._end, version=form.server_version, count=0)

    def _mariadb_gtid(self, name: GtidName, *, statement: bool) -> None:
        gtid = MariadbGtid.parse(f"{name.source}-{name.sequence}")
        # The server is a part of the name, and nothing but the header says which it is.
        self._server_id = gtid.server_id
        flags = MariadbGtidFlags.STANDALONE | MariadbGtidFlags.DDL if statement else 0
        self.event(_T.MARIADB_GTID, MariadbGtidEvent(gtid, MariadbGtidFlags(flags)).encode())

    def _mysql_gtid(
        self, form: FormatDescription, name: GtidName | None, microseconds: int, *, statement: bool
    ) -> None:
        source, number = (_NO_SOURCE, 0) if name is None else (GtidSource(name.source), name[1])
        if ":" in source.uuid:
            raise BinlogGtidTagged(
                "GTIDs with tags cannot be written",
                object=f"{source.uuid}:{number}",
                hint="leave gtid_next without a tag at the upstream, or deliver to another sink",
            )
        version = version_number(form.server_version)
        times = version >= _HAS_TIMES
        gtid = Gtid(
            source,
            number,
            flags=_MAY_HAVE_STATEMENTS if statement else 0,
            # One after the other: what could run at once is not in the log.
            last_committed=self.tail.count,
            sequence_number=self.tail.count + 1,
            immediate_commit_timestamp=microseconds if times else None,
            transaction_length=_LONG if times else None,
            immediate_server_version=version[0] * 10000 + version[1] * 100 + version[2],
        )
        at = self._end
        self.event(_T.ANONYMOUS_GTID if gtid.anonymous else _T.GTID, gtid.encode())
        self._gtid_at = at if times else -1

    def _tell_length(self, at: int, length: int) -> None:
        """Put the length of the transaction into its GTID event at ``at`` of the file."""
        at -= self._start
        size = _LENGTH_AT + _LENGTH_BYTES + 4 + CHECKSUM_LENGTH
        inside = at >= self._flushed
        if inside:
            first = at - self._flushed
            event = bytearray(self._buffer[first : first + size])
        else:
            self._flush()
            event = bytearray(os.pread(self._fd, size, at))
        event[_LENGTH_AT : _LENGTH_AT + _LENGTH_BYTES] = length.to_bytes(_LENGTH_BYTES, "little")
        event[-CHECKSUM_LENGTH:] = checksum(bytes(event[:-CHECKSUM_LENGTH]))
        if inside:
            self._buffer[first : first + size] = event
        else:
            write_at(self._fd, memoryview(bytes(event)), at)

    def _take(self, data: bytes | memoryview) -> None:
        self._buffer += data
        if len(self._buffer) >= _FLUSH_BYTES:
            self._flush()

    def _open(self, number: int, offset: int) -> None:
        # Names of an earlier writer must never be met again.
        self._part = f"{self._stem}-{uuid.uuid4().hex}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(self._parts / self._part, flags, 0o644)
        self._number, self._start, self._flushed = number, offset, 0
        self._buffer.clear()

    def _flush(self) -> None:
        write_at(self._fd, memoryview(bytes(self._buffer)), self._flushed)
        self._flushed += len(self._buffer)
        self._buffer.clear()

    def _close(self) -> None:
        self._flush()
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        self.pieces.append(Piece(self._part, self._number, self._start, self._flushed))
