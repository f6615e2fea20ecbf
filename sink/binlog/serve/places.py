"""What a replica has of the files already, and where its stream begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cdc.binlog.events import EventType
from cdc.binlog.gtid import Gtid, MariadbGtidEvent
from cdc.binlog.gtid_list import GtidList, parse_previous_gtids
from cdc.binlog.gtid_set import GtidSet, MariadbGtidPosition
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, MAGIC, EventHeader

_T = EventType
_HEAD_BYTES = 1 << 20
GTIDS = frozenset({_T.GTID, _T.ANONYMOUS_GTID, _T.MARIADB_GTID})


class Had(Protocol):
    """What a replica has."""

    def begins(self, previous: bytes) -> bool:
        """Whether it has all that lies before a file; ``previous`` is what that says of it."""

    def has(self, header: EventHeader, body: bytes) -> bool | None:
        """Whether it has the transaction that a GTID event begins; None if that has no name."""


class HadSet:
    """A set of MySQL's GTIDs."""

    def __init__(self, gtids: GtidSet) -> None:
        self._gtids = gtids

    def begins(self, previous: bytes) -> bool:
        """See ``Had``."""
        return self._gtids.contains(parse_previous_gtids(previous))

    def has(self, header: EventHeader, body: bytes) -> bool | None:
        """See ``Had``."""
        gtid = Gtid.parse(body)
        if gtid.anonymous:
            return None
        one = {gtid.source: ((gtid.gno, gtid.gno + 1),)}
        return self._gtids.contains(GtidSet(one))


class HadDomains:
    """The last GTID of each of MariaDB's domains."""

    def __init__(self, at: MariadbGtidPosition) -> None:
        self._last = {domain: gtid.sequence for domain, gtid in at.domains.items()}

    def begins(self, previous: bytes) -> bool:
        """See ``Had``."""
        listed = GtidList.parse(previous).gtids
        return all(g.sequence <= self._last.get(g.domain, 0) for g in listed)

    def has(self, header: EventHeader, body: bytes) -> bool | None:
        """See ``Had``."""
        gtid = MariadbGtidEvent.parse(body, header.server_id).gtid
        return gtid.sequence <= self._last.get(gtid.domain, 0)


def first_file(files: Sequence[Path], had: Had) -> Path | None:
    """The last file before which there is nothing that the replica lacks; None if there is none."""
    for file in reversed(files):
        previous = _previous(file)
        if previous is not None and had.begins(previous):
            return file
    return None


def is_anonymous(file: Path) -> bool:
    """Whether the first transaction of a file has no GTID, as in a stream of several nodes."""
    events = head(file, 3)
    return len(events) == 3 and events[2][4] == _T.ANONYMOUS_GTID


def head(file: Path, count: int = 2) -> list[bytes]:
    """The first events: FORMAT_DESCRIPTION, and what the file says of those before it."""
    with file.open("rb") as opened:
        data = opened.read(_HEAD_BYTES)
    found: list[bytes] = []
    at = len(MAGIC)
    while at + HEADER_LENGTH <= len(data) and len(found) < count:
        length = EventHeader.parse(data, at).length
        if length < HEADER_LENGTH or at + length > len(data):
            break
        found.append(data[at : at + length])
        at += length
    return found


def _previous(file: Path) -> bytes | None:
    events = head(file)
    return events[1][HEADER_LENGTH:-CHECKSUM_LENGTH] if len(events) == 2 else None
