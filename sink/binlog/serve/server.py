"""Replicas of the files of a binlog sink: a connection and a thread for each."""

from __future__ import annotations

import re
import socket
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cdc.base.errors import TidegateError
from cdc.binlog.format_description import FormatDescription
from cdc.binlog.gtid_set import GtidSet, MariadbGtidPosition
from cdc.binlog.header import HEADER_LENGTH
from sink.binlog.serve.answers import Asked, NotUnderstood
from sink.binlog.serve.dump import Dump, FileGone
from sink.binlog.serve.login import ReplicaAccess, login
from sink.binlog.serve.packets import PacketStream, PeerGone
from sink.binlog.serve.places import Had, HadDomains, HadSet, first_file, head, is_anonymous

_QUIT, _QUERY, _PING, _DUMP, _REGISTER, _DUMP_GTID = 1, 3, 14, 18, 21, 30
_NON_BLOCK = 1
_BY_GTID = 4
_FATAL = 1236
_UNKNOWN = 1047
_LOGIN_S = 10.0


@dataclass
class BinlogServer:
    """Serves ``NAME.NNNNNN`` of a folder to one user; ``close`` ends all connections.

    ``server_id`` is what replicas see, and must be none of theirs. Files are read as they are: the
    server needs no ledger, and no changefeed that runs.
    """

    folder: Path
    name: str
    access: ReplicaAccess
    server_id: int
    host: str = "127.0.0.1"
    port: int = 0
    _streams: set[PacketStream] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Listen; ``port`` is then the one that is listened at. Raises OSError."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.create_server((self.host, self.port), family=family)
        self.port = int(self._listener.getsockname()[1])
        self._accepting = threading.Thread(target=self._accept, name="binlog-server", daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """End."""
        # A close alone would leave who waits in accept() with the port.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        with self._lock:
            for stream in self._streams:
                stream.shut()

    def files(self) -> list[Path]:
        """The files that there are, in order."""
        pattern = re.compile(re.escape(self.name) + r"\.(\d{6,})\Z")
        found = ((pattern.match(path.name), path) for path in self.folder.iterdir())
        return [path for _, path in sorted((int(m[1]), path) for m, path in found if m)]

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            stream = PacketStream(peer)
            with self._lock:
                self._streams.add(stream)
            threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream: PacketStream) -> None:
        try:
            with stream, suppress(OSError, PeerGone):
                stream.limit(_LOGIN_S)
                form = self._form()
                if form is None:
                    stream.error(1040, "there is no file yet", "08004")
                elif login(stream, form.server_version, self.access):
                    stream.limit(None)
                    Replica(self, stream, form).run()
        finally:
            with self._lock:
                self._streams.discard(stream)

    def _form(self) -> FormatDescription | None:
        files = self.files()
        return FormatDescription.parse(head(files[-1])[0][HEADER_LENGTH:]) if files else None


class Replica:
    """One replica's connection."""

    def __init__(self, server: BinlogServer, stream: PacketStream, form: FormatDescription) -> None:
        self._server = server
        self._stream = stream
        made = uuid.uuid5(uuid.NAMESPACE_URL, f"{server.server_id}:{server.folder}/{server.name}")
        self._asked = Asked(
            {
                "server_id": str(server.server_id),
                "server_uuid": str(made),
                "version": form.server_version,
                "binlog_checksum": "CRC32",
                # MySQL's replicas take transactions without GTIDs of a server that has none only.
                "gtid_mode": "OFF" if any(map(is_anonymous, server.files()[:1])) else "ON",
                "gtid_domain_id": "0",
                "collation_server": "utf8mb4_general_ci",
                "time_zone": "+00:00",
                "rpl_semi_sync_master_enabled": "0",
            }
        )

    def run(self) -> None:
        """Answer until the replica goes. Raises OSError, PeerGone."""
        while True:
            command = self._stream.command()
            code, body = command[0] if command else _QUIT, command[1:]
            if code == _QUIT:
                return
            try:
                self._do(code, body)
            except (FileGone, TidegateError, ValueError) as e:
                # Of what a replica sends nothing is believed, and a file may go while it is read.
                self._stream.error(_FATAL, str(e) or type(e).__name__)
                raise PeerGone from None

    def _do(self, code: int, body: bytes) -> None:
        if code == _QUERY:
            self._query(body.decode("utf-8", "replace"))
        elif code in (_PING, _REGISTER):
            self._stream.ok()
        elif code == _DUMP:
            name = body[10:].split(b"\0")[0].decode("utf-8", "replace")
            flags = int.from_bytes(body[4:6], "little")
            state = self._asked.said.get("@slave_connect_state")
            had = None if state is None else HadDomains(MariadbGtidPosition.parse(state))
            self._dump(name, int.from_bytes(body[:4], "little"), had, flags)
        elif code == _DUMP_GTID:
            self._dump_gtid(body)
        else:
            self._stream.error(_UNKNOWN, "a command that no replica sends", "08S01")

    def _query(self, sql: str) -> None:
        try:
            sizes = [(file.name, file.stat().st_size) for file in self._server.files()]
            answer = self._asked.answer(sql, sizes)
        except (NotUnderstood, FileNotFoundError):
            self._stream.error(1193, "a query that no replica asks")
            return
        if answer is None:
            self._stream.ok()
        else:
            self._stream.rows(*answer)

    def _dump_gtid(self, body: bytes) -> None:
        flags = int.from_bytes(body[:2], "little")
        size = int.from_bytes(body[6:10], "little")
        name, rest = body[10 : 10 + size].rstrip(b"\0"), body[10 + size :]
        at, length = int.from_bytes(rest[:8], "little"), int.from_bytes(rest[8:12], "little")
        had = HadSet(GtidSet.decode(rest[12 : 12 + length])) if flags & _BY_GTID else None
        self._dump(name.decode("utf-8", "replace"), at, had, flags)

    def _dump(self, name: str, at: int, had: Had | None, flags: int) -> None:
        files = self._server.files()
        if had is not None:
            file, at = first_file(files, had), 4
        else:
            file = next((f for f in files if f.name == name), None if name else files[0])
        if file is None or at > file.stat().st_size:
            raise FileGone("the files do not have what the replica lacks")
        said = self._asked.said
        period = said.get("@master_heartbeat_period") or said.get("@source_heartbeat_period")
        checksum = said.get("@master_binlog_checksum") or said.get("@source_binlog_checksum")
        if checksum is None:
            raise FileGone("a replica that knows no checksums")
        dump = Dump(
            self._server.files, self._server.server_id, had=had,
            heartbeat_s=int(period or 0) / 1e9, announced=checksum != "NONE",
        )  # fmt: skip
        for events in dump.events(file, at, wait=not flags & _NON_BLOCK):
            self._stream.send_events(events)
        self._stream.end()
