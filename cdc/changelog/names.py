"""Names of the files of a log."""

from __future__ import annotations

import re
from pathlib import Path

MANIFEST = "manifest"
TABLES = "tables"
XIDS = "xids"
LOCK = "lock"
ORIGIN = "origin"
NODES = "nodes"
CUTS = "cuts"
STORE = "store"
SCHEMA_FOLDER = "schema"
STATEMENTS = "statements"
TEMPORARY = ".tmp"

_SEGMENT = re.compile(r"^(\d{6}|[1-9]\d{6,})\.(binlog|index)$")


def data_name(segment: int) -> str:
    """``000007.binlog``; seven digits from 1000000 on, as servers count."""
    return f"{segment:06d}.binlog"


def index_name(segment: int) -> str:
    """``000007.index``."""
    return f"{segment:06d}.index"


def shown(folder: Path) -> str:
    """What a log is called in errors: its upstream, and which of that upstream's logs it is.

    >>> shown(Path("/var/lib/tidegate/logs/shop/0"))
    'log shop/0'
    """
    return f"log {'/'.join(folder.parts[-2:])}"


def segment_of(name: str) -> int | None:
    """Number of the segment that a file belongs to, or None for any other file."""
    match = _SEGMENT.match(name)
    return int(match.group(1)) if match else None
