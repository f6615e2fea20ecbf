"""Where a log has to read on that begins at a state of another, with what is prepared there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from cdc.binlog.gtid_set import GtidSet
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH
from cdc.binlog.query import Query
from cdc.binlog.xa import XaPrepare, parse_statement
from cdc.changelog import names, origin
from cdc.changelog.index import PREPARED_BEFORE, RunKind, Runs
from cdc.changelog.prepared import PreparedBook
from cdc.changelog.reader import ChangeLog
from cdc.changelog.startup import read_index
from cdc.changelog.state import LogState, SegmentInfo
from cdc.changelog.tables import Dictionaries

# What is looked for in a log here is looked for once, so its indexes need not be kept.
INDEX_BYTES = 1 << 20
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
        # Of what was prepared where this log began, what has not ended in the segments looked at.
        self._prepared_before, self._looked_to = set(origin.of(folder).prepared), 0
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

        Raises LogCorrupt, LogCollected.
        """
        if self._when_prepared is WhenPrepared.NOT_NEEDED:
            return self._not_needed(state)
        if not state.prepared_from:
            return AnchorPlace(state.position)
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
        return AnchorPlace({**state.position, "gtid": str(left)})

    def _not_needed(self, state: LogState) -> AnchorPlace | None:
        # A node is merged to the ts of what has ended. All prepares of this state lie before what
        # ends at its ts or later, as the group of a prepare takes a ts, too.
        xids = self._left_of_before(state)
        if state.prepared_from:
            rows = self._prepared(state)
            steps = rows.take(rows.table < 0)
            if len(steps) > _MOST_PREPARED:
                return None
            xids |= {str(XaPrepare.parse(body).xid) for body in self._bodies(steps)}
        return AnchorPlace(state.position, tuple(sorted(xids)))

    def _left_of_before(self, state: LogState) -> set[str]:
        """What was prepared where this log began, and has not ended at a state as far as is known.

        Where it has ended in a segment that is removed it stays, which does no harm.
        """
        for segment in state.closed if self._prepared_before else ():
            if segment.number > self._looked_to:
                self._prepared_before -= self._ended_in(segment)
                self._looked_to = segment.number
        if not self._prepared_before or not state.current.number:
            return set(self._prepared_before)
        return self._prepared_before - self._ended_in(state.current)

    def _ended_in(self, segment: SegmentInfo) -> set[str]:
        rows = read_index(self._folder, segment)
        committed = (rows.kind == RunKind.COMMIT) & ((rows.flags & PREPARED_BEFORE) != 0)
        ends = rows.take(committed | (rows.kind == RunKind.ROLLBACK))
        said = (parse_statement(Query.parse(body).sql) for body in self._bodies(ends))
        return {str(one[1]) for one in said if one is not None}

    def _bodies(self, rows: Runs) -> Iterator[bytes]:
        """What is in the event of each row."""
        if not len(rows):
            return
        with closing(ChangeLog.open(self._folder, index_bytes=INDEX_BYTES)) as log:
            for i in range(len(rows)):
                yield log.event(rows.slice(i, i + 1))[HEADER_LENGTH:-CHECKSUM_LENGTH]

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
