"""Rows as files of JSON lines (``sink.contract.Deliverer``)."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cdc.base.position import Position, stand
from cdc.base.ts import Ts
from cdc.changelog.files import sync_folder, write_at
from cdc.rows.batch import Order, RowBatch
from cdc.rows.plan import Matrix, PlanSet
from sink.codec.contract import EncodeLimits, Framing, MessageCodec
from sink.contract import Destination, Entry, Sent
from sink.file.errors import FileInternal, mapped
from sink.file.ledger import ROWS, FileLedger, Journal, PartFile, Reached, window_line
from sink.file.names import rows_name, table_of
from sink.file.settings import FileSettings

_BATCH_BYTES = 4_000_000
_MESSAGE_BYTES = 1 << 30


class FileWorker:
    """Writes the files of a window, and commits them by one line of its slot's journal.

    Any error, and ``abort``, ends the object. Not thread-safe.
    """

    def __init__(
        self,
        settings: FileSettings,
        codec: MessageCodec[Any],
        ledger: FileLedger,
        epoch: int,
        slot: int,
    ) -> None:
        self._settings = settings
        self._codec = codec
        self._plan = codec.no_tables
        self._ledger = ledger
        self._epoch = epoch
        self._slot = slot
        self._open: dict[Destination, _Growing] = {}
        self._made: dict[Destination, list[_Growing]] = {}
        self._stands: dict[Destination, Reached] = {}
        self._rows = self._bytes = 0
        with mapped():
            ledger.check(epoch)
            self._journal = Journal(ledger.path / f"slot-{epoch}-{slot}")

    def plan(self, entries: Sequence[Entry], *, mariadb: bool, more: bool = False) -> PlanSet:
        """Plans of the format; it is the same for both families."""
        self._plan = self._codec.plan(entries, self._plan if more else self._codec.no_tables)
        plans: PlanSet = self._plan.plans
        return plans

    def begin(
        self, destinations: Collection[Destination], at_once: int | None = None
    ) -> Mapping[Destination, Position]:
        """Start a window. The ledger was read by recovery: nobody else can move it."""
        self._rows = self._bytes = 0
        self._made = {}
        return {}

    def deliver(
        self, located: RowBatch, runs: Matrix, order: Order, destination: Destination
    ) -> None:
        """Write the rows' lines behind those that the window has for the table."""
        batches = self._codec.encode(
            located,
            self._plan,
            order,
            time.time_ns() // 1_000_000,
            limits=EncodeLimits(min(_BATCH_BYTES, self._settings.file_size), _MESSAGE_BYTES),
            framing=Framing.CRLF_LINES,
            buffer=None,
        )
        with mapped():
            for batch in batches:
                if batch.data.nbytes:
                    self._growing(destination).write(batch.data)
                self._rows += batch.rows
                self._bytes += batch.data.nbytes

    def watermark(self, destination: Destination, ts: Ts, now_ms: int) -> None:
        """Files have none: their names say up to where they are."""
        raise FileInternal("files have no watermarks", object=destination[0])

    def commit(self, ledger: Mapping[Destination, Position]) -> Sent:
        """Make files durable, then the line that names them, then put them in their places."""
        reached = {d: Reached(table_of(d[0]), stand(at)) for d, at in ledger.items()}
        for destination, now in reached.items():
            before = self._stands.get(destination)
            if before is not None and now.own <= before.own:
                raise FileInternal(f"position {now.own} goes back", object=destination[0])
        parts = []
        with mapped(), self._ledger.of(self._epoch):
            for destination, files in self._made.items():
                if destination not in reached:
                    raise FileInternal("rows without a position", object=destination[0])
                for number, file in enumerate(files):
                    file.sync()
                    place = f"{destination[0]}/{rows_name(reached[destination].own, number)}"
                    parts.append(PartFile(file.path.name, place))
            # From here on they may count, so that nobody must remove them.
            self._made, self._open = {}, {}
            if reached:
                sync_folder(self._ledger.parts)
                self._journal.append(window_line(reached, parts))
            self._ledger.check(self._epoch)
            if gone := self._ledger.move(parts):
                self._ledger.check(self._epoch)
                raise FileInternal("a part of the window is gone", object=gone[0].place)
        self._stands |= reached
        return Sent(self._rows, self._bytes, self._bytes, len(parts))

    def abort(self) -> None:
        """Give the window up and end the object."""
        for files in self._made.values():
            for file in files:
                file.drop()
        self._made, self._open = {}, {}
        self._journal.close()

    def _growing(self, destination: Destination) -> _Growing:
        file = self._open.get(destination)
        if file is None or file.size >= self._settings.file_size:
            # Names of a slot's earlier worker must never be met again.
            name = f"{ROWS}{self._epoch}-{self._slot}-{uuid.uuid4().hex}"
            file = self._open[destination] = _Growing(self._ledger.parts / name)
            self._made.setdefault(destination, []).append(file)
        return file


class _Growing:
    """A file that grows. It is opened for each write: a window may be of thousands of tables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0

    def write(self, data: memoryview) -> None:
        """Put bytes at its end."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_at(fd, data, self.size)
        finally:
            os.close(fd)
        self.size += data.nbytes

    def sync(self) -> None:
        """Make it durable."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def drop(self) -> None:
        """Remove it, as far as that goes: recovery does otherwise."""
        with suppress(OSError):
            self.path.unlink()
