"""New QUERY events of a server's binlog, read from its files as they grow."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from cdc.binlog.query import Query
from tests.servers import Database

_HEADER = struct.Struct("<IBIIIH")
_QUERY = 2
_CHECKSUM = 4


class Tail:
    """Follows the binlog from the moment at which it is made."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._file = db.binlogs()[-1]
        self._at = self._file.stat().st_size

    def queries(self) -> Iterator[Query]:
        """Statements that were written since the last call."""
        while True:
            files = self._db.binlogs()
            if self._file not in files or self._file.stat().st_size < self._at:
                # RESET MASTER
                self._file, self._at = files[0], 4
            with self._file.open("rb") as file:
                file.seek(self._at)
                data = file.read()
            at = 0
            while at + _HEADER.size <= len(data):
                _, kind, _, size, _, _ = _HEADER.unpack_from(data, at)
                if at + size > len(data):
                    break
                if kind == _QUERY:
                    yield Query.parse(data[at + _HEADER.size : at + size - _CHECKSUM])
                at += size
            self._at += at
            if self._file != files[-1]:
                self._file, self._at = files[files.index(self._file) + 1], 4
            else:
                return
