"""Where a log has to read on that begins at a state of another, with what is prepared there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cdc.binlog.gtid_set import GtidSet
from cdc.changelog import names
from cdc.changelog.index import Runs
from cdc.changelog.prepared import PreparedBook
from cdc.changelog.startup import read_index
from cdc.changelog.state import LogState
from cdc.changelog.tables import Dictionaries


class AnchorPlaces:
    """Of one log, at its states as they come; each closed segment's index is read once.

    ``by_set``: the server sends whatever a GTID set lacks, as MySQL's do. Without the GTIDs of what
    is prepared it sends that first, however far back it lies, and then what comes behind. A
    position of MariaDB, or an offset, cannot say so.
    """

    def __init__(self, folder: Path, by_set: bool) -> None:
        self._folder = folder
        self._by_set = by_set
        self._sources: dict[int, str] = {}
        # What is prepared behind the last segment that was closed when it was read.
        self._book, self._read_to = PreparedBook(), 0

    def may_be_at(self, state: LogState) -> bool:
        """Whether :meth:`at` may know one."""
        by_set = self._by_set and state.position.get("gtid") is not None
        return by_set or not state.prepared_from

    def at(self, state: LogState) -> dict[str, Any] | None:
        """The upstream's position; None if it would leave out rows that are prepared at ``state``.

        Raises LogCorrupt.
        """
        if not state.prepared_from:
            return state.position
        if not self.may_be_at(state):
            return None
        rows = self._prepared(state)
        left = GtidSet.parse(state.position["gtid"])
        for source in np.unique(rows.gtid_source).tolist():
            if source < 0:
                return None
            numbers = np.unique(rows.gtid_seq[rows.gtid_source == source]).tolist()
            prepared = ":".join((self._source(source, state), *map(str, numbers)))
            left = left.subtract(GtidSet.parse(prepared))
        return {**state.position, "gtid": str(left)}

    def _prepared(self, state: LogState) -> Runs:
        """PREPARE rows of what is prepared at a state."""
        if state.prepared_from > self._read_to + 1:
            # Whatever was prepared below has ended; where it did is not read.
            self._book, self._read_to = PreparedBook(), state.prepared_from - 1
        for segment in state.closed:
            if segment.number > self._read_to:
                self._book.apply(read_index(self._folder, segment))
                self._read_to = segment.number
        book = self._book.copy()
        if state.current.number > self._read_to:
            book.apply(read_index(self._folder, state.current))
        return book.rows()

    def _source(self, number: int, state: LogState) -> str:
        if number not in self._sources:
            dictionaries = Dictionaries()
            dictionaries.load((self._folder / names.TABLES).read_bytes()[: state.tables_length])
            self._sources = dictionaries.sources
        return self._sources[number]
