"""Opening a log for writing: cut the torn tail, check what stays, rebuild what was in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdc.changelog import names, recovery
from cdc.changelog.format_event import first_event
from cdc.changelog.index import Runs
from cdc.changelog.index_file import decode
from cdc.changelog.prepared import PreparedBook
from cdc.changelog.segment_file import MAGIC
from cdc.changelog.state import LogState, SegmentInfo
from cdc.changelog.tables import Dictionaries
from cdc.changelog.verify import check_data, check_index
from cdc.changelog.xids import Xids

_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """What a writer goes on from; ``format`` is empty if there is no segment yet."""

    state: LogState
    dictionaries: Dictionaries
    book: PreparedBook
    xids: Xids
    format: bytes


def recover(folder: Path) -> RecoveredLog:
    """Recover the log of a folder; a folder without one gives the empty state.

    The caller holds the lock. Raises LogCorrupt.
    """
    decided = recovery.look(folder)
    if decided is None:
        return RecoveredLog(LogState(), Dictionaries(), PreparedBook(), Xids(folder, ()), b"")
    recovery.cut(folder, decided)
    state = decided.state
    if state.segment:
        _check(folder, state.current)
    dictionaries = Dictionaries()
    if state.tables_length:
        dictionaries.load((folder / names.TABLES).read_bytes())
    book = PreparedBook()
    if state.prepared_from:
        for segment in state.segments():
            if segment.number >= state.prepared_from:
                book.apply(read_index(folder, segment))
    xids = Xids(folder, book.xids(), dictionaries.xids)
    dictionaries.xids.clear()
    return RecoveredLog(state, dictionaries, book, xids, _read_format(folder, state))


def read_index(folder: Path, segment: SegmentInfo) -> Runs:
    """All runs of a segment, checked. Raises LogCorrupt."""
    found = check_index(folder, segment)
    if found is not None:
        raise found.error()
    with (folder / names.index_name(segment.number)).open("rb") as file:
        return decode(file.read(segment.index), whole=True)


def _check(folder: Path, segment: SegmentInfo) -> None:
    for found in (check_data(folder, segment), check_index(folder, segment)):
        if found is not None:
            raise found.error()


def _read_format(folder: Path, state: LogState) -> bytes:
    if not state.segment:
        return b""
    with (folder / names.data_name(state.segment)).open("rb") as file:
        return first_event(file.read(_HEAD_BYTES), len(MAGIC))
