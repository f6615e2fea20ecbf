"""What lies before a file: PREVIOUS_GTIDS (MySQL) and GTID_LIST (MariaDB)."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import EventMalformed
from cdc.binlog.gtid_set import GtidSet, MariadbGtid

_COUNT_MASK = (1 << 28) - 1
_SHORTEST = 6


def parse_previous_gtids(body: bytes) -> GtidSet:
    """The set of all GTIDs of earlier files."""
    return GtidSet.decode(body)


@dataclass(frozen=True, slots=True)
class GtidList:
    """The last GTID by (domain, server) of earlier files; of a domain, the last one is newest.

    ``flags`` (4 bits): 1 the stream has reached its ``UNTIL``, 2 ignorable GTIDs.
    """

    gtids: tuple[MariadbGtid, ...]
    flags: int = 0

    @classmethod
    def parse(cls, body: bytes) -> GtidList:
        """``body``: everything behind the header, without the checksum."""
        cursor = Cursor(body, "MARIADB_GTID_LIST")
        word = cursor.uint(4, "count")
        count = word & _COUNT_MASK
        if count * 16 > cursor.left():
            raise EventMalformed(f"MARIADB_GTID_LIST: {count} GTIDs in {cursor.left()} bytes")
        gtids = tuple(
            MariadbGtid(
                cursor.uint(4, "domain"), cursor.uint(4, "server id"), cursor.uint(8, "sequence")
            )
            for _ in range(count)
        )
        return cls(gtids, word >> 28)

    def encode(self) -> bytes:
        """The body; an empty list is padded to six bytes, as the server does."""
        out = (len(self.gtids) | self.flags << 28).to_bytes(4, "little")
        for gtid in self.gtids:
            out += gtid.domain.to_bytes(4, "little")
            out += gtid.server_id.to_bytes(4, "little")
            out += gtid.sequence.to_bytes(8, "little")
        return out.ljust(_SHORTEST, b"\0")
