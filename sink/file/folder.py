"""Whether a folder can be delivered into, and whose it is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from pathlib import Path

from cdc.base.ids import FeedId
from sink.file.errors import FileFolderTaken, FileFolderUnusable, mapped
from sink.file.ledger import ledgers
from sink.file.names import LEDGERS


def writable(where: Path) -> None:
    """Make the folder, and write to it. Raises FileFolderUnusable."""
    try:
        where.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=where, prefix=f"{LEDGERS}-") as probe:
            os.fsync(probe.fileno())
    except OSError as e:
        raise FileFolderUnusable(
            f"nothing can be written to it: {e.strerror}",
            object=str(where),
            hint="give a folder that the server's user may write to",
        ) from None


def admitted(where: Path, feed: FeedId) -> Collection[FeedId]:
    """Whose ledgers the folder has, all of them of the changefeed's name.

    Raises FileFolderUnusable, and FileFolderTaken if another changefeed delivers into it.
    """
    writable(where)
    with mapped():
        found = ledgers(where)
    for other in found:
        if other.name != feed.name:
            raise FileFolderTaken(
                f"changefeed {other.name} delivers into it",
                object=str(where),
                hint="give each changefeed a folder of its own; when the other one is no more,"
                f" remove {LEDGERS}/{other.text}",
            )
    return found
