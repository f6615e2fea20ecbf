"""Where a log has to read on that begins at a state of another, with what is prepared there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from cdc.binlog.gtid_set import GtidSet
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH
from cdc.binlog.xa import XaPrepare
from cdc.changelog import names
from cdc.changelog.index import Runs
from cdc.changelog.prepared import PreparedBook
from cdc.changelog.startup import read_index
from cdc.changelog.state import LogState
from cdc.changelog.tables import Dictionaries

# So many xids are a sixteenth of what a value of the store may have.
_MOST_PREPARED = 1000


class WhenPrepared(Enum):
    """What is done for the rows of what is prepared where a log is to begin.

    By their GTIDs: the server sends whatever a GTID set lacks, as MySQL's do. Without those of what
    is prepared it sends that first, however far back it lies, and then what comes behind. A
    position of MariaDB, or an offset, cannot say so, and a moment is waited for at which nothing
    is prepared. A node of a cluster needs none of these rows, as a log is begun there only when
    all of them were merged.
    """

    WAIT = "wait"
    BY_GTIDS = "by GTIDs"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class AnchorPlace:
    """The upstream's position, and xids of what is prepared there whose rows are not sent again."""

    position: dict[str, Any]
    prepared: tuple[str, ...] = ()


class AnchorPlaces:
    """Of one log, at its states as they come; each closed segment's index is read once."""

    def __init__(self, folder: Path, when_prepared: WhenPrepared) -> None:
        self._folder = folder
        self._when_prepared = when_prepared
        self._sources: dict[int, str] = {}
        # What is prepared behind the last segment that was closed when it was read.
        self._book, self._read_to = PreparedBook(), 0

    def may_be_at(self, state: LogState) -> bool:
        """Whether :meth:`at` may know one."""
        if not state.prepared_from or self._when_prepared is WhenPrepared.NOT_NEEDED:
            return True
        by_gtids = self._when_prepared is WhenPrepared.BY_GTIDS
        return by_gtids and state.position.get("gtid") is not None

    def at(self, state: LogState) -> AnchorPlace | None:
        """The place; None if a log that begins there would lack rows that are needed.

        Raises LogCorrupt.
        """
        if not state.prepared_from:
            return AnchorPlace(state.position)
        if not self.may_be_at(state):
            return None
        rows = self._prepared(state)
        if self._when_prepared is WhenPrepared.NOT_NEEDED:
            return self._not_needed(state, rows)
        left = GtidSet.parse(state.position["gtid"])
        for source in np.unique(rows.gtid_source).tolist():
            if source < 0:
                return None
            numbers = np.unique(rows.gtid_seq[rows.gtid_source == source]).tolist()
            prepared = ":".join((self._source(source, state), *map(str, numbers)))
            left = left.subtract(GtidSet.parse(prepared))
        return AnchorPlace({**state.position, "gtid": str(left)})

    def _not_needed(self, state: LogState, rows: Runs) -> AnchorPlace | None:
        # A node is merged to the ts of what has ended. All prepares of this state lie before what
        # ends at its ts or later, as the group of a prepare takes a ts, too.
        steps = rows.take(rows.table < 0)
        if len(steps) > _MOST_PREPARED:
            return None
        where = zip(*(c.tolist() for c in (steps.segment, steps.offset, steps.length)), strict=True)
        xids = {self._xid(*place) for place in where}
        return AnchorPlace(state.position, tuple(sorted(xids)))

    def _xid(self, segment: int, offset: int, length: int) -> str:
        with (self._folder / names.data_name(segment)).open("rb") as file:
            file.seek(offset)
            event = file.read(length)
        return str(XaPrepare.parse(event[HEADER_LENGTH:-CHECKSUM_LENGTH]).xid)

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
