"""XA: the id of a distributed transaction, XA_PREPARE, and the texts that end it.

The servers print an id in statements as ``X'gtrid',X'bqual',format``; prepare and commit of one
transaction are matched by the id's value, whichever way it was printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import EventMalformed

_MAX_PART = 64


@dataclass(frozen=True, slots=True)
class Xid:
    """``format_id`` is signed 32 bits; gtrid and bqual are up to 64 bytes each."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        """``X'6131',X'',1``: exactly as the servers write it behind XA COMMIT."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"

    @classmethod
    def parse_text(cls, text: str) -> Xid:
        """From ``X'..',X'..',n``, ``'..','..',n`` or ``0x..``; bqual and n may be left out."""
        parts = [p.strip() for p in _split(text)]
        if not 1 <= len(parts) <= 3:
            raise EventMalformed(f"XA id {text!r} does not parse")
        gtrid = _piece(parts[0], text)
        bqual = _piece(parts[1], text) if len(parts) > 1 else b""
        try:
            format_id = int(parts[2], 0) if len(parts) > 2 else 1
        except ValueError:
            raise EventMalformed(f"XA id {text!r} does not parse") from None
        if format_id >= 1 << 31:
            format_id -= 1 << 32
        return cls(format_id, gtrid, bqual)

    def encode_short(self) -> bytes:
        """As in MariaDB's GTID event: format (4), gtrid length (1), bqual length (1), bytes."""
        lengths = bytes([len(self.gtrid), len(self.bqual)])
        return self.format_id.to_bytes(4, "little", signed=True) + lengths + self.gtrid + self.bqual


@dataclass(frozen=True, slots=True)
class XaPrepare:
    """XA_PREPARE (type 38): the end of a prepared transaction; ``one_phase`` commits at once."""

    one_phase: bool
    xid: Xid

    @classmethod
    def parse(cls, body: bytes) -> XaPrepare:
        """Body: one phase (1), format id (4), gtrid length (4), bqual length (4), bytes."""
        cursor = Cursor(body, "XA_PREPARE")
        one_phase = cursor.uint(1, "one phase")
        format_id = cursor.sint(4, "format id")
        gtrid_length = cursor.uint(4, "gtrid length")
        bqual_length = cursor.uint(4, "bqual length")
        if gtrid_length > _MAX_PART or bqual_length > _MAX_PART or one_phase > 1:
            raise EventMalformed(
                f"XA_PREPARE: id parts of {gtrid_length} and {bqual_length} bytes, flag {one_phase}"
            )
        gtrid = cursor.take(gtrid_length, "gtrid")
        return cls(bool(one_phase), Xid(format_id, gtrid, cursor.take(bqual_length, "bqual")))

    def encode(self) -> bytes:
        """The body."""
        xid = self.xid
        return (
            bytes([self.one_phase])
            + xid.format_id.to_bytes(4, "little", signed=True)
            + len(xid.gtrid).to_bytes(4, "little")
            + len(xid.bqual).to_bytes(4, "little")
            + xid.gtrid
            + xid.bqual
        )


_END = re.compile(r"\s*XA\s+(COMMIT|ROLLBACK|PREPARE|START|END)\s+(.*?)\s*;?\s*\Z", re.I | re.S)
_ONE_PHASE = re.compile(r"\s+ONE\s+PHASE\s*\Z", re.I)


def parse_statement(sql: str) -> tuple[str, Xid] | None:
    """``("COMMIT", xid)`` of ``XA COMMIT X'..',X'..',1``; ``None`` if it is no XA statement."""
    found = _END.match(sql)
    if found is None:
        return None
    return found[1].upper(), Xid.parse_text(_ONE_PHASE.sub("", found[2]))


def _split(text: str) -> list[str]:
    pieces = re.findall(r"(?:X'[^']*'|'(?:[^']|'')*'|[^,'])+", text, re.I)
    return pieces or [text]


def _piece(text: str, whole: str) -> bytes:
    if re.fullmatch(r"X'(?:[0-9a-f]{2})*'", text, re.I):
        return bytes.fromhex(text[2:-1])
    if re.fullmatch(r"0x(?:[0-9a-f]{2})+", text, re.I):
        return bytes.fromhex(text[2:])
    if re.fullmatch(r"'(?:[^']|'')*'", text, re.S):
        return text[1:-1].replace("''", "'").encode("utf-8")
    raise EventMalformed(f"XA id {whole!r} does not parse")
