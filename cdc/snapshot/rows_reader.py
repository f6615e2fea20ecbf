"""The rows of a SELECT as blocks of bytes, without a Python object for any of them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pymysql
from pymysql.constants import COMMAND
from pymysql.protocol import FieldDescriptorPacket

from cdc.base.redaction import user_data
from cdc.kernels import row_packets
from cdc.snapshot.errors import SnapshotReadBroken

BLOCK_BYTES: Final = 1 << 20
_NO_CURSOR: Final = 0


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some rows of a result: ``data`` uint8[:] is each row's length (4 bytes) and payload.

    ``types``: the code of each column's type where they are rows of the binary protocol, None where
    they are text. The block is the reader's no longer: it may be kept.
    """

    data: npt.NDArray[np.uint8]
    rows: int
    types: bytes | None = None


def read_rows(
    connection: Any, sql: str, block_bytes: int = BLOCK_BYTES, *, prepared: bool = False
) -> Iterator[RowBlock]:
    """Run a SELECT on an open PyMySQL connection; its rows in blocks of about ``block_bytes``.

    Rows of the text protocol, or of the binary one if ``prepared``, as they come off the socket.
    Memory: one block, or one row that is
    larger, twice. When the last block was taken the connection is free for the
    next statement; if the iteration is left before, or fails, it is closed. The server's errors,
    in the middle too, are PyMySQL's; others are ``SnapshotReadBroken``.
    """
    reader = (_Prepared if prepared else _Reader)(connection, block_bytes)
    try:
        reader.begin(sql)
        yield from reader.blocks()
    finally:
        if not reader.free:
            connection._force_close()


class _Reader:
    def __init__(self, connection: Any, block_bytes: int) -> None:
        self._connection = connection
        self._room = max(block_bytes, 1 << 12)
        self._sequence = 0
        self._types: bytes | None = None
        # Whether rows may lie in PyMySQL's buffer.
        self._read_ahead = True
        # Whether the server waits for our next statement.
        self.free = True

    def begin(self, sql: str) -> None:
        """Send the statement, read the head of its result."""
        self.free = False
        self._head(COMMAND.COM_QUERY, sql, sql)

    def _answer(self, command: int, body: str | bytes) -> Any:
        """The first packet of the server's answer."""
        self._connection._execute_command(command, body)
        try:
            return self._connection._read_packet()
        except pymysql.err.MySQLError:
            # An error packet is a whole answer; if the socket broke it is closed already.
            self.free = True
            raise

    def _head(self, command: int, body: str | bytes, sql: str) -> bytes:
        """Read all before the rows; the codes of the columns' types."""
        connection = self._connection
        head = self._answer(command, body)
        if head.is_ok_packet() or head.is_load_local_packet():
            raise SnapshotReadBroken("the statement gives no rows", object=user_data(sql[:200]))
        count = head.read_length_encoded_integer()
        fields = [connection._read_packet(FieldDescriptorPacket) for _ in range(count)]
        connection._read_packet()
        self._sequence = connection._next_seq_id
        return bytes(field.type_code for field in fields)

    def blocks(self) -> Iterator[RowBlock]:
        """Read until the rows are over."""
        buf = np.empty(self._room, np.uint8)
        at = have = rows = 0
        while True:
            at, raw, self._sequence, taken, code, payload = row_packets.take_rows(
                buf, at, have, self._sequence
            )
            rows += taken
            if code == row_packets.MORE and have < len(buf):
                have += self._read(memoryview(buf)[have:])  # type: ignore[arg-type]
                continue
            if code in (row_packets.END, row_packets.ERROR):
                self._finish(bytes(buf[raw - payload : raw]), have - raw, code)
            elif code in (row_packets.BAD_SEQUENCE, row_packets.TOO_LARGE):
                what = "out of order" if code == row_packets.BAD_SEQUENCE else "over 2 GiB"
                raise SnapshotReadBroken(f"a packet of the result is {what}")
            if rows:
                yield RowBlock(buf[:at], rows, self._types)
            if code == row_packets.END:
                return
            # What was not taken begins the next block, which has room for a row twice as large.
            rest = buf[raw:have]
            buf = np.empty(max(self._room, 2 * len(rest)), np.uint8)
            buf[: len(rest)] = rest
            at, have, rows = 0, len(rest), 0

    def _read(self, room: memoryview) -> int:
        """What has arrived, at least one byte."""
        try:
            if self._read_ahead:
                count = self._take_read_ahead(room)
            else:
                count = self._connection._sock.recv_into(room)
        except OSError as error:
            raise SnapshotReadBroken(f"reading rows failed: {error}") from None
        if not count:
            raise SnapshotReadBroken("the server closed the connection among the rows")
        return count

    def _take_read_ahead(self, room: memoryview) -> int:
        """What PyMySQL's file over the socket has taken with the head of the result, or takes now.

        It is used until its buffer is empty: it makes an object as large as ``room`` for each read,
        of which there are thousands.
        """
        file = self._connection._rfile
        data = file.peek()[: len(room)]
        self._read_ahead = len(data) == len(room)
        room[: len(data)] = file.read(len(data))
        return len(data)

    def _finish(self, payload: bytes, behind: int, code: int) -> None:
        if behind:
            raise SnapshotReadBroken(f"{behind} bytes behind the end of the result")
        self.free = True
        self._connection._next_seq_id = self._sequence
        if code == row_packets.ERROR:
            pymysql.err.raise_mysql_exception(payload)
        with contextlib.suppress(struct.error):
            _, status = struct.unpack_from("<HH", payload, 1)
            self._connection.server_status = status


class _Prepared(_Reader):
    """Has the server send values as it has them, which it does for prepared statements only."""

    def begin(self, sql: str) -> None:
        """Prepare the statement, execute it, read the head of its result."""
        connection = self._connection
        self.free = False
        made = self._answer(COMMAND.COM_STMT_PREPARE, sql).get_all_data()
        self._statement, columns, parameters = struct.unpack_from("<IHH", made, 1)
        for count in (parameters, columns):
            for _ in range(count + 1 if count else 0):
                connection._read_packet()
        if not columns:
            raise SnapshotReadBroken("the statement gives no rows", object=user_data(sql[:200]))
        execute = struct.pack("<IBI", self._statement, _NO_CURSOR, 1)
        self._types = self._head(COMMAND.COM_STMT_EXECUTE, execute, sql)

    def _finish(self, payload: bytes, behind: int, code: int) -> None:
        try:
            super()._finish(payload, behind, code)
        finally:
            if self.free:
                # It is not answered.
                close = struct.pack("<I", self._statement)
                self._connection._execute_command(COMMAND.COM_STMT_CLOSE, close)
