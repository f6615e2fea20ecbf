"""Schema changes for the readers of files (``sink.schema_change.SchemaChanger``)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.files import write_at
from sink.codec.contract import MessageCodec
from sink.contract import RECOVERY_BITS
from sink.file.errors import FileInternal, mapped
from sink.file.ledger import CHANGE, FileLedger, PartFile
from sink.file.names import change_name, folder, part
from sink.schema_change import Recorded, SchemaChange, TableName, proven

_CRLF = b"\r\n"
_ENDED = frozenset({Recorded.DONE, Recorded.SKIPPED})


class FileChanger:
    """Writes each change once into the folder of every table and database that it concerns.

    A change's file has a name of its own, so what a crash has left half done is done again under
    the same names; then the change is recorded.
    """

    def __init__(self, codec: MessageCodec[Any], ledger: FileLedger, epoch: int) -> None:
        self._codec = codec
        self._ledger = ledger
        self._epoch = epoch
        self._lock = threading.Lock()
        self._recorded: dict[Ts, Recorded] = {}
        self._stands: tuple[Position, ...] = ()

    def take_over(self) -> Mapping[Ts, Recorded]:
        """Write our epoch, read what is recorded and where tables stand."""
        with self._ours():
            self._ledger.claim(self._epoch, bits=RECOVERY_BITS)
            self._ledger.clear(CHANGE, self._epoch)
            self._recorded = self._ledger.begin_changes(self._epoch)
            self._stands = tuple(known.at for known in self._ledger.reached().values())
            return dict(self._recorded)

    def ties(self) -> tuple[tuple[str, str], ...]:
        """Nothing ties files of different tables together."""
        return ()

    def execute(self, change: SchemaChange) -> None:
        """Write it, unless it is recorded or rows behind it were delivered."""
        with self._ours():
            if self._recorded.get(change.ts) in _ENDED:
                return
            if not proven(change, self._stands):
                self._write(change)
            self._record({change.ts: Recorded.DONE})

    def skip(self, change: SchemaChange) -> None:
        """Record that it is not to be written."""
        with self._ours():
            if self._recorded.get(change.ts) not in _ENDED:
                self._record({change.ts: Recorded.SKIPPED})

    def forget_below(self, ts: Ts) -> None:
        """Remove the records at or below ``ts``."""
        with self._ours():
            old = [known for known in self._recorded if known <= ts]
            if old:
                self._record(dict.fromkeys(old))

    def close(self) -> None:
        """Nothing is held."""

    @contextmanager
    def _ours(self) -> Iterator[None]:
        with self._lock, mapped(), self._ledger.of(self._epoch, bits=RECOVERY_BITS):
            yield

    def _record(self, states: Mapping[Ts, Recorded | None]) -> None:
        self._ledger.record(self._epoch, states)
        self._ledger.check(self._epoch, bits=RECOVERY_BITS)
        for ts, state in states.items():
            if state is None:
                self._recorded.pop(ts, None)
            else:
                self._recorded[ts] = state

    def _write(self, change: SchemaChange) -> None:
        now_ms = time.time_ns() // 1_000_000
        made = []
        for number, (where, tables) in enumerate(_folders(change).items()):
            message = self._codec.schema_change(change, tables, now_ms)
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
