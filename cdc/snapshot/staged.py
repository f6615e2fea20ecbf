"""A file of rows that were read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StagedFile:
    """A chunk as it was read: TABLE_MAP events and ``events`` WRITE_ROWS events of so many rows.

    ``begin``: bytes before the first of them. A file that begins as a binlog does may become part
    of a log without being read.
    """

    path: Path
    rows: int
    events: int
    begin: int = 0
