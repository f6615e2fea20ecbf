"""Reading tables before they are asked for, while a server prints their definitions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cdc.base.errors import TidegateError
from cdc.changelog.reader import ChangeLog
from cdc.schema.snapshot import Wanted
from cdc.schema.tokens import DDLNotUnderstood
from cdc.source.known_snapshots import snapshot_at


@contextmanager
def tables_read_ahead(folder: Path, wanted: Wanted | None) -> Iterator[None]:
    """Read the wanted tables of a log's newest snapshot, in a thread, while the context lasts.

    Of a hundred thousand both take a minute. What was read is shared by all histories that begin
    with this snapshot (:mod:`cdc.source.known_snapshots`), and none of them need have begun. What
    cannot be read is told to whoever asks for it. None are wanted: nothing is read.
    """
    if wanted is None:
        yield
        return
    left = threading.Event()
    reading = threading.Thread(target=_read, args=(folder, wanted, left), daemon=True)
    reading.start()
    try:
        yield
    finally:
        left.set()
        reading.join()


def _read(folder: Path, wanted: Wanted, left: threading.Event) -> None:
    try:
        with closing(ChangeLog.open(folder)) as log:
            known = snapshot_at(log, log.state.resolved_ts)
    except TidegateError:
        return
    catalog = known.catalog
    for schema, table in catalog.tables_of(wanted.matches_schema):
        if left.is_set():
            return
        if wanted.matches(schema, table):
            with suppress(DDLNotUnderstood):
                catalog.table(schema, table)
    # It is held for as long, so that it is still the same one for who asks in the context.
    left.wait()
