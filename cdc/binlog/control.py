"""Small events around transactions: ROTATE, STOP, HEARTBEAT, INCIDENT, XID, annotations."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import UpstreamIncident

LOST_EVENTS = 1


@dataclass(frozen=True, slots=True)
class Rotate:
    """The next file and the position to read it from (4, or where a dump begins)."""

    position: int
    file: str

    @classmethod
    def parse(cls, body: bytes) -> Rotate:
        """``body``: everything behind the header, without the checksum."""
        cursor = Cursor(body, "ROTATE")
        return cls(cursor.uint(8, "position"), cursor.rest().decode("utf-8", "replace"))

    def encode(self) -> bytes:
        """The body."""
        return self.position.to_bytes(8, "little") + self.file.encode()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Nothing has happened up to ``position`` of ``file``.

    Version 1 has only the header's 32 bits of position, so ``position`` is then ``None`` and the
    caller takes it from there; version 2 (MySQL 8.0.26+) knows it whole.
    """

    file: str
    position: int | None

    @classmethod
    def parse(cls, body: bytes) -> Heartbeat:
        """Of HEARTBEAT (type 27): the file's name is the body.

        MariaDB appends eight bytes of position where the header's 32 bits do not hold it; a name
        never contains a zero byte, so the tail is recognised by one.
        """
        name, _, _ = body.partition(b"\0")
        if len(name) != len(body) and len(body) > 8:
            return cls(_text(body[:-8]), int.from_bytes(body[-8:], "little"))
        return cls(_text(name), None)

    @classmethod
    def parse_v2(cls, body: bytes) -> Heartbeat:
        """Of HEARTBEAT_V2 (type 41): fields of (type, length, value), ended by type 0."""
        cursor = Cursor(body, "HEARTBEAT_V2")
        file, position = "", None
        while cursor.left():
            field = cursor.lenenc("field type")
            if field == 0:
                break
            value = cursor.lenenc_bytes("field")
            if field == 1:
                file = _text(value)
            elif field == 2:
                position = Cursor(value, "HEARTBEAT_V2 position").lenenc("position")
        return cls(file, position)


@dataclass(frozen=True, slots=True)
class Incident:
    """The server says that its binlog has a gap."""

    number: int
    message: str

    @classmethod
    def parse(cls, body: bytes) -> Incident:
        """``body``: number (2), message after its length."""
        cursor = Cursor(body, "INCIDENT")
        number = cursor.uint(2, "number")
        message = cursor.short_bytes("message") if cursor.left() else b""
        return cls(number, _text(message))

    def error(self, *, position: str = "") -> UpstreamIncident:
        """The error that stops the upstream."""
        return UpstreamIncident(
            f"the server reports incident {self.number}: {self.message or 'events were lost'}",
            object="INCIDENT",
            position=position,
            hint="remove the upstream and create it again: a new snapshot closes the gap",
        )

    def encode(self) -> bytes:
        """The body."""
        text = self.message.encode()[:255]
        return self.number.to_bytes(2, "little") + bytes([len(text)]) + text


def parse_xid(body: bytes) -> int:
    """The number in XID, which commits a transaction of a transactional engine."""
    return Cursor(body, "XID").uint(8, "xid")


def parse_rows_query(body: bytes) -> str:
    """Statement text of ROWS_QUERY (MySQL): one byte of a clipped length, then all of the text."""
    cursor = Cursor(body, "ROWS_QUERY")
    cursor.take(1, "length")
    return _text(cursor.rest())


def parse_annotate_rows(body: bytes) -> str:
    """Statement text of ANNOTATE_ROWS (MariaDB): the whole body."""
    return _text(body)


def parse_intvar(body: bytes) -> tuple[int, int]:
    """(1 LAST_INSERT_ID or 2 INSERT_ID, value)."""
    cursor = Cursor(body, "INTVAR")
    return cursor.uint(1, "kind"), cursor.uint(8, "value")


def parse_view_change(body: bytes) -> str:
    """View id of VIEW_CHANGE (group replication), 40 bytes at its start."""
    return _text(Cursor(body, "VIEW_CHANGE").take(40, "view id").rstrip(b"\0"))


def parse_checkpoint(body: bytes) -> str:
    """File name of MariaDB's BINLOG_CHECKPOINT."""
    cursor = Cursor(body, "MARIADB_BINLOG_CHECKPOINT")
    return _text(cursor.take(cursor.uint(4, "length"), "file name"))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
