"""Schema changes for the readers of files (``sink.schema_change.SchemaChanger``)."""

from __future__ import annotations

import os
import time
from typing import Any

from cdc.changelog.files import write_at
from sink.codec.contract import MessageCodec
from sink.contract import RECOVERY_BITS
from sink.file.errors import FileInternal
from sink.file.ledger import CHANGE, FileLedger, PartFile
from sink.file.names import change_name, folder, part
from sink.file.recording import RecordingChanger
from sink.schema_change import Recorded, SchemaChange, TableName

_CRLF = b"\r\n"


class FileChanger(RecordingChanger[FileLedger]):
    """Writes each change once into the folder of every table and database that it concerns.

    A change's file has a name of its own, so what a crash has left half done is done again under
    the same names; then the change is recorded.
    """

    def __init__(self, codec: MessageCodec[Any], ledger: FileLedger, epoch: int) -> None:
        super().__init__(ledger, epoch)
        self._codec = codec

    def _write(self, change: SchemaChange) -> None:
        now_ms = time.time_ns() // 1_000_000
        made = []
        for number, (where, tables) in enumerate(_folders(change).items()):
            message = self._codec.schema_change(change, tables, now_ms)
            if message is None:
                continue
            name = f"{CHANGE}{self._epoch}-{change.ts}-{number}"
            place = f"{where}/{change_name(change.ts)}"
            if not (self._ledger.root / place).exists():
                fd = os.open(
                    self._ledger.parts / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644
                )
                try:
                    write_at(fd, memoryview(message.value + _CRLF), 0)
                    os.fsync(fd)
                finally:
                    os.close(fd)
                made.append(PartFile(name, place))
        self._ledger.check(self._epoch, bits=RECOVERY_BITS)
        if gone := self._ledger.move(made):
            raise FileInternal("the file of a schema change is gone", object=gone[0].place)
        self._record({change.ts: Recorded.DONE})


def _folders(change: SchemaChange) -> dict[str, list[TableName]]:
    """Folders whose readers need to know, each with the tables that are its own."""
    found: dict[str, list[TableName]] = {folder(*name): [name] for name in change.replicated}
    for schema in change.schemas:
        found[part(schema)] = []
        for catalog in (change.before, change.after):
            database = catalog.database(schema)
            if database is not None and not change.tables:
                for table in database.tables:
                    found.setdefault(folder(database.name, table), [])
    return found
