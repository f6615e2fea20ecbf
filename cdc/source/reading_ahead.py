"""Reading tables before they are asked for, while a server prints their definitions."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from cdc.base.errors import TidegateError
from cdc.changelog.reader import ChangeLog
from cdc.schema.snapshot import Wanted
from cdc.schema.tokens import DDLNotUnderstood
from cdc.source.known_snapshots import KnownSnapshot, snapshot_at


class TablesReadAhead:
    """Reads the wanted tables of a log's newest snapshot, in a thread, while the context lasts.

    Of a hundred thousand both take a minute. What was read is shared by all histories that begin
    with this snapshot (:mod:`cdc.source.known_snapshots`), and none of them need have begun. What
    cannot be read is told to whoever asks for it. None are wanted: nothing is read.
    """

    def __init__(self, folder: Path, wanted: Wanted | None) -> None:
        self._folder = folder
        # Held, so that it is still the same one for who asks in the context.
        self._known: KnownSnapshot | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if wanted is not None:
            self._thread = threading.Thread(target=self._read, args=(wanted,), daemon=True)

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _read(self, wanted: Wanted) -> None:
        try:
            with closing(ChangeLog.open(self._folder)) as log:
                self._known = snapshot_at(log, log.state.resolved_ts)
        except TidegateError:
            return
        catalog = self._known.catalog
        for schema, table in catalog.tables_of(wanted.matches_schema):
            if self._stop.is_set():
                return
            if wanted.matches(schema, table):
                with suppress(DDLNotUnderstood):
                    catalog.table(schema, table)
