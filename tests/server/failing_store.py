"""A store whose disk is full for a while."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from cdc.base.clock import SystemClock
from cdc.coord.contract import StoredKey
from cdc.coord.embedded import EmbeddedStore


class FailingStore(EmbeddedStore):
    """While ``broken`` SQLite ends each write with this error; ``refused`` counts them."""

    broken = False
    refused = 0

    def __init__(self, path: Path) -> None:
        super().__init__(path, SystemClock())

    def _write_all(self, revision: int, changed: dict[str, StoredKey | None]) -> None:
        if self.broken:
            self.refused += 1
            raise sqlite3.OperationalError("database or disk is full")
        super()._write_all(revision, changed)
