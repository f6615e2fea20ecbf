"""The replication stream: what a replica says to a server, then bytes in large blocks."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import uuid
import zlib
from collections.abc import Callable
from typing import Any

import pymysql
from pymysql.constants import COMMAND

from cdc.binlog.gtid_set import GtidSet
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import query_error
from cdc.source.errors import BinlogPurged, ServerIdTaken, StreamBroken, UpstreamGone, UpstreamReset
from cdc.source.position import UpstreamPosition
from cdc.source.settings import SourceSettings

_BINLOG_DUMP_GTID = 0x1E
_NON_BLOCKING = 1
_THROUGH_GTID = 4
_FATAL_READING_BINLOG = 1236
_SAME_ID = 4052  # MariaDB's own number for what MySQL says with 1236


def replica_uuid(info: UpstreamInfo, attempt: int = 0) -> str:
    """The same for an upstream at each start, so that a server ends our own dead dump threads."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"tidegate/{info.name}/{info.server_uuid}/{attempt}"))


def replica_server_id(info: UpstreamInfo, attempt: int = 0) -> int:
    """A stable server id that is not the upstream's own; ``attempt`` gives another one."""
    number = zlib.crc32(replica_uuid(info, attempt).encode()) | 0x40000000
    return number if number != info.server_id else number ^ 1


class BinlogStream:
    """A dump in progress: blocks of raw packets."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._socket: socket.socket = connection._sock
        self._name = name
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._pending: Callable[[], int] | None = getattr(self._socket, "pending", None)
        self._socket.settimeout(30)

    def readable(self, timeout_s: float = 0.0) -> bool:
        """Whether bytes (or the end) are there within the time."""
        if self._pending is not None and self._pending() > 0:
            return True
        return bool(self._poll.poll(max(0.0, timeout_s) * 1000))

    def read_into(self, block: memoryview) -> int:
        """Take what is there, at least one byte. Raises UpstreamGone at the end."""
        try:
            n = self._socket.recv_into(block)
            while self._pending is not None and 0 < n < len(block) and self.readable():
                # A TLS record gives 16 KiB at most; gather what has arrived.
                more = self._socket.recv_into(block[n:])
                if more == 0:
                    break
                n += more
        except OSError as error:
            raise UpstreamGone(f"reading failed: {error}", object=self._name) from None
        if n == 0:
            raise UpstreamGone("the server closed the stream", object=self._name)
        return n

    def interrupt(self) -> None:
        """End reads of this stream, in whichever thread they wait; :meth:`close` is still due."""
        with contextlib.suppress(OSError):
            # Not the method of a TLS socket, which would take its state from under the reader.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Drop the connection: a dump cannot be ended otherwise."""
        self._connection._force_close()


def open_stream(
    connection: Any,
    info: UpstreamInfo,
    position: UpstreamPosition,
    settings: SourceSettings,
    *,
    attempt: int = 0,
    only_head: bool = False,
) -> BinlogStream:
    """Announce ourselves and start the dump at ``position``; the connection is used up.

    ``only_head`` is for a look at a stretch of the binlog beside a running dump: it has neither
    server id nor uuid, by which the server would take the other for dead and end it.
    """
    name = f"upstream {info.name}"
    server_id = 0 if only_head else replica_server_id(info, attempt)
    try:
        own_uuid = "" if only_head else replica_uuid(info, attempt)
        _prepare(connection, info, position, settings, own_uuid)
        if not only_head:
            register = struct.pack("<I", server_id) + b"\0\0\0" + struct.pack("<HII", 0, 0, 0)
            connection._execute_command(COMMAND.COM_REGISTER_SLAVE, register)
            connection._read_ok_packet()
        connection._next_seq_id = 0
        command, payload = _dump_command(info, position, server_id, only_head)
        connection._execute_command(command, payload)
    except pymysql.err.MySQLError as error:
        raise query_error(error, name) from None
    stream = BinlogStream(connection, name)
    sock = connection._sock
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return stream


def _prepare(
    connection: Any,
    info: UpstreamInfo,
    position: UpstreamPosition,
    settings: SourceSettings,
    own_uuid: str,
) -> None:
    heartbeat_ns = int(settings.heartbeat_s * 1e9)
    with connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
        cursor.execute(f"SET @master_heartbeat_period = {heartbeat_ns}")
        # A server ends a dump that nobody reads for 60 s; a paused pull may take longer.
        cursor.execute(f"SET SESSION net_write_timeout = {settings.server_net_timeout_s}")
        if info.server_kind == "mariadb":
            cursor.execute("SET @mariadb_slave_capability = 4")
            if position.gtid is not None:
                cursor.execute("SET @slave_connect_state = %s", (position.gtid,))
                cursor.execute("SET @slave_gtid_strict_mode = 1")
                cursor.execute("SET @slave_gtid_ignore_duplicates = 0")
        else:
            cursor.execute("SET @source_binlog_checksum = @@global.binlog_checksum")
            cursor.execute(f"SET @source_heartbeat_period = {heartbeat_ns}")
            if own_uuid:
                cursor.execute("SET @slave_uuid = %s, @replica_uuid = %s", (own_uuid, own_uuid))


def _dump_command(
    info: UpstreamInfo, position: UpstreamPosition, server_id: int, only_head: bool
) -> tuple[int, bytes]:
    flags = _NON_BLOCKING if only_head else 0
    if position.gtid is not None and info.server_kind != "mariadb":
        gtids = GtidSet.parse(position.gtid).encode()
        payload = struct.pack("<HII", flags | _THROUGH_GTID, server_id, 0)
        payload += struct.pack("<QI", 4, len(gtids)) + gtids
        return _BINLOG_DUMP_GTID, payload
    by_gtid = position.gtid is not None
    pos, file = (4, b"") if by_gtid else (position.pos, position.file.encode())
    if pos >= 1 << 32:
        raise UpstreamReset(
            "the protocol cannot name an offset past 4 GiB without GTIDs",
            object=f"upstream {info.name}",
            position=str(position),
            hint="switch GTIDs on, and keep max_binlog_size at 1 GiB",
        )
    return COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", pos, flags, server_id) + file


_PURGED = ("purged", "could not find first log file", "probably the slave state is too old")
_RESET = (
    "not in the master's binlog",
    "more gtids than",
    "impossible position",
    "not found in the binlog",
    "is missing the gtid",
    "position > file size",
    "is not present in",
    "exceeds the last",
)


def server_error(payload: bytes, info: UpstreamInfo, position: UpstreamPosition) -> Exception:
    """Our error for an ERR packet of a dump (everything behind its 0xFF)."""
    name = f"upstream {info.name}"
    if len(payload) < 2:
        return StreamBroken("an error packet is cut", object=name, position=str(position))
    number = int.from_bytes(payload[:2], "little")
    text = payload[2:].decode("utf-8", "replace")
    text = text[6:] if text.startswith("#") else text
    lower = text.lower()
    at = {"object": name, "position": str(position)}
    same = ("same server_uuid", "same server_id", "same server uuid")
    if number == _SAME_ID or (number == _FATAL_READING_BINLOG and any(t in lower for t in same)):
        hint = "another replica has our server id; we go on under another one"
        return ServerIdTaken(text, **at, hint=hint)
    if number == _FATAL_READING_BINLOG:
        if any(t in lower for t in _PURGED):
            hint = "take a new changefeed from now on; keep binlogs for longer on the server"
            return BinlogPurged(text, **at, hint=hint)
        if any(t in lower for t in _RESET):
            hint = "remove the upstream and create it anew: its history was replaced"
            return UpstreamReset(text, **at, hint=hint)
    return UpstreamGone(f"{text} ({number})", **at)
