"""The events that begin a transaction: GTID, ANONYMOUS_GTID, GTID_TAGGED, and MariaDB's GTID."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from uuid import UUID

from cdc.binlog import varlen
from cdc.binlog.cursor import Cursor, lenenc_int
from cdc.binlog.errors import EventMalformed
from cdc.binlog.gtid_set import GtidSource, MariadbGtid
from cdc.binlog.xa import Xid

_LOGICAL_TIMESTAMP = 2
_HAS_ORIGINAL_TIME = 1 << 55
_HAS_ORIGINAL_VERSION = 1 << 31


@dataclass(frozen=True, slots=True)
class Gtid:
    """A MySQL transaction's name and times; ``gno`` 0 means anonymous.

    Commit timestamps are microseconds since the epoch, ``None`` where the server is older than
    8.0. ``transaction_length`` counts bytes from this event to the end of the transaction.
    ``last_committed`` and ``sequence_number`` are the logical clock within the file.
    """

    source: GtidSource
    gno: int
    flags: int = 0
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None

    @property
    def anonymous(self) -> bool:
        """Whether the server gave it no GTID."""
        return self.gno == 0

    def __str__(self) -> str:
        return "ANONYMOUS" if self.anonymous else f"{self.source}:{self.gno}"

    @classmethod
    def parse(cls, body: bytes) -> Gtid:
        """Of GTID and ANONYMOUS_GTID (types 33, 34); fields grew from 5.6 to 8.3."""
        cursor = Cursor(body, "GTID")
        flags = cursor.uint(1, "flags")
        source = GtidSource(str(UUID(bytes=cursor.take(16, "uuid"))))
        gno = cursor.sint(8, "gno")
        if gno < 0:
            raise EventMalformed(f"GTID: number {gno} is negative")
        if cursor.left() < 17 or cursor.uint(1, "clock type") != _LOGICAL_TIMESTAMP:
            return cls(source, gno, flags)
        last_committed = cursor.sint(8, "last committed")
        sequence_number = cursor.sint(8, "sequence number")
        immediate = original = length = version = original_version = ticket = None
        if cursor.left() >= 7:
            immediate = cursor.uint(7, "immediate commit timestamp")
            original = immediate & ~_HAS_ORIGINAL_TIME
            if immediate & _HAS_ORIGINAL_TIME:
                immediate = original
                original = cursor.uint(7, "original commit timestamp")
        if cursor.left() >= 1:
            length = cursor.lenenc("transaction length")
        if cursor.left() >= 4:
            version = cursor.uint(4, "immediate server version")
            original_version = version & ~_HAS_ORIGINAL_VERSION
            if version & _HAS_ORIGINAL_VERSION:
                version = original_version
                original_version = cursor.uint(4, "original server version")
        if cursor.left() >= 8:
            ticket = cursor.uint(8, "commit group ticket")
        return cls(
            source,
            gno,
            flags,
            last_committed,
            sequence_number,
            immediate,
            original,
            length,
            version,
            original_version,
            ticket,
        )

    @classmethod
    def parse_tagged(cls, body: bytes) -> Gtid:
        """Of GTID_TAGGED (type 42, MySQL 8.3+)."""
        cursor = Cursor(body, "GTID_TAGGED")
        format_version = varlen.unsigned(cursor, "format version")
        size = varlen.unsigned(cursor, "size")
        last_needed = varlen.unsigned(cursor, "last needed field")
        if format_version != 1 or size > len(body):
            raise EventMalformed(f"GTID_TAGGED: format {format_version} of {size} bytes")
        cursor.end = size
        found: dict[int, int] = {}
        uuid, tag = bytes(16), ""
        while cursor.left() > 0:
            field = varlen.unsigned(cursor, "field id")
            if field == 0:
                found[0] = varlen.unsigned(cursor, "flags")
            elif field == 1:
                uuid = bytes(varlen.unsigned(cursor, "uuid") & 0xFF for _ in range(16))
            elif field == 3:
                length = varlen.unsigned(cursor, "tag length")
                tag = cursor.take(length, "tag").decode("ascii", "replace")
            elif field in (2, 4, 5):
                found[field] = varlen.signed(cursor, "number")
            elif field <= 11:
                found[field] = varlen.unsigned(cursor, "number")
            elif field <= last_needed:
                raise EventMalformed(f"GTID_TAGGED: field {field} is not known")
            else:
                break
        if found.get(2, 0) <= 0:
            raise EventMalformed("GTID_TAGGED has no number")
        immediate, version = found.get(6), found.get(9)
        return cls(
            GtidSource(str(UUID(bytes=uuid)), tag),
            found[2],
            found.get(0, 0),
            found.get(4),
            found.get(5),
            immediate,
            found.get(7, immediate),
            found.get(8),
            version,
            found.get(10, version),
            found.get(11),
        )

    def encode(self) -> bytes:
        """Body of GTID or ANONYMOUS_GTID; no tag."""
        out = bytes([self.flags]) + UUID(self.source.uuid).bytes + self.gno.to_bytes(8, "little")
        out += bytes([_LOGICAL_TIMESTAMP])
        out += (self.last_committed or 0).to_bytes(8, "little")
        out += (self.sequence_number or 0).to_bytes(8, "little")
        if self.immediate_commit_timestamp is None:
            return out
        original = self.original_commit_timestamp
        immediate = self.immediate_commit_timestamp
        if original is None or original == immediate:
            out += immediate.to_bytes(7, "little")
        else:
            out += (immediate | _HAS_ORIGINAL_TIME).to_bytes(7, "little")
            out += original.to_bytes(7, "little")
        out += lenenc_int(self.transaction_length or 0)
        return out + (self.immediate_server_version or 80000).to_bytes(4, "little")


class MariadbGtidFlags(IntFlag):
    """``flags2`` of MariaDB's GTID event."""

    STANDALONE = 1
    GROUP_COMMIT_ID = 2
    TRANSACTIONAL = 4
    ALLOW_PARALLEL = 8
    WAITED = 16
    DDL = 32
    PREPARED_XA = 64
    COMPLETED_XA = 128


class MariadbGtidExtra(IntFlag):
    """``flags_extra`` of MariaDB's GTID event (10.6+)."""

    MULTI_ENGINE = 1
    START_ALTER = 2
    COMMIT_ALTER = 4
    ROLLBACK_ALTER = 8
    THREAD_ID = 16


_NO_EXTRA = MariadbGtidExtra(0)


@dataclass(frozen=True, slots=True)
class MariadbGtidEvent:
    """MariaDB's GTID event: the start of a transaction or of one standalone statement.

    A group that is not ``standalone`` ends with XID, XA_PREPARE, or a COMMIT or ROLLBACK query.
    ``xid`` is there for XA PREPARE and XA COMMIT/ROLLBACK; ``start_alter`` is the sequence number
    of the START ALTER that a commit or rollback of a two-phase ALTER belongs to.
    """

    gtid: MariadbGtid
    flags: MariadbGtidFlags
    commit_id: int | None = None
    xid: Xid | None = None
    extra: MariadbGtidExtra = _NO_EXTRA
    extra_engines: int | None = None
    start_alter: int | None = None
    thread_id: int | None = None

    @property
    def standalone(self) -> bool:
        """One statement without BEGIN and end of its own (DDL)."""
        return bool(self.flags & MariadbGtidFlags.STANDALONE)

    @classmethod
    def parse(cls, body: bytes, server_id: int) -> MariadbGtidEvent:
        """``server_id`` is that of the event's header: it is a part of the GTID."""
        cursor = Cursor(body, "MARIADB_GTID")
        sequence = cursor.uint(8, "sequence number")
        domain = cursor.uint(4, "domain")
        flags = MariadbGtidFlags(cursor.uint(1, "flags"))
        commit_id = xid = engines = start_alter = thread_id = None
        extra = _NO_EXTRA
        if flags & MariadbGtidFlags.GROUP_COMMIT_ID:
            commit_id = cursor.uint(8, "commit id")
        if flags & (MariadbGtidFlags.PREPARED_XA | MariadbGtidFlags.COMPLETED_XA):
            format_id = cursor.sint(4, "XA format id")
            lengths = cursor.uint(1, "gtrid length"), cursor.uint(1, "bqual length")
            xid = Xid(format_id, cursor.take(lengths[0], "gtrid"), cursor.take(lengths[1], "bqual"))
        if cursor.left() > 0:
            extra = MariadbGtidExtra(cursor.uint(1, "extra flags"))
            if extra & MariadbGtidExtra.MULTI_ENGINE:
                engines = cursor.uint(1, "extra engines")
            if extra & (MariadbGtidExtra.COMMIT_ALTER | MariadbGtidExtra.ROLLBACK_ALTER):
                start_alter = cursor.uint(8, "start alter sequence number")
            if extra & MariadbGtidExtra.THREAD_ID:
                thread_id = cursor.uint(4, "thread id")
        gtid = MariadbGtid(domain, server_id, sequence)
        return cls(gtid, flags, commit_id, xid, extra, engines, start_alter, thread_id)

    def encode(self) -> bytes:
        """The body; extra flags are not written."""
        flags = self.flags & ~MariadbGtidFlags.GROUP_COMMIT_ID
        if self.commit_id is not None:
            flags |= MariadbGtidFlags.GROUP_COMMIT_ID
        out = self.gtid.sequence.to_bytes(8, "little") + self.gtid.domain.to_bytes(4, "little")
        out += bytes([flags & 0xFF])
        if self.commit_id is not None:
            out += self.commit_id.to_bytes(8, "little")
        if self.xid is not None:
            out += self.xid.encode_short()
        return out.ljust(19, b"\0")
