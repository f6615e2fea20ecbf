"""Which transactions a server has: GTID sets of MySQL, positions by domain of MariaDB.

Binary form of a set (COM_BINLOG_DUMP_GTID, PREVIOUS_GTIDS): number of source ids (8 bytes), and
for each the 16 bytes of its uuid, its number of intervals (8), and the intervals as start and
exclusive end (8 + 8). Sets with tags (MySQL 8.3+) put 1 into the first and last byte of the count,
which leaves six bytes for it, and each uuid is followed by its tag as length * 2 and bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import EventMalformed, GtidTextBad

MAX_GNO = (1 << 63) - 1
_TAGGED = 1
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}\Z")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z")
_NUMBER = re.compile(r"[0-9]{1,19}\Z")


class GtidSource(NamedTuple):
    """Who numbers transactions: a server's uuid (lower case, with dashes) and a tag or ``""``."""

    uuid: str
    tag: str = ""

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}" if self.tag else self.uuid


Intervals = tuple[tuple[int, int], ...]
"""Sorted, disjoint, not adjacent; ends are exclusive."""


def _normal(pairs: Iterable[tuple[int, int]]) -> Intervals:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(pairs):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def _minus(have: Intervals, take: Intervals) -> Intervals:
    left: list[tuple[int, int]] = []
    for start, end in have:
        for cut_start, cut_end in take:
            if cut_end <= start or cut_start >= end:
                continue
            if cut_start > start:
                left.append((start, cut_start))
            start = max(start, cut_end)
            if start >= end:
                break
        if start < end:
            left.append((start, end))
    return tuple(left)


@dataclass(frozen=True)
class GtidSet:
    """An immutable set of MySQL GTIDs: intervals of numbers by source."""

    intervals: Mapping[GtidSource, Intervals] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """From ``uuid:1-5:7,uuid:tag:1-3`` as the server prints it; :class:`GtidTextBad` else."""
        found: dict[GtidSource, list[tuple[int, int]]] = {}
        for part in re.sub(r"\s", "", text).lower().split(","):
            if not part:
                continue
            uuid_text, *pieces = part.split(":")
            source = GtidSource(_uuid(uuid_text, text))
            if not pieces:
                raise GtidTextBad(f"no numbers follow {uuid_text!r}", object=text)
            for piece in pieces:
                if _TAG.match(piece):
                    source = GtidSource(source.uuid, piece)
                    continue
                found.setdefault(source, []).append(_interval(piece, text))
        return cls({s: _normal(pairs) for s, pairs in sorted(found.items())})

    def __str__(self) -> str:
        parts: list[str] = []
        uuid = ""
        for source in sorted(self.intervals):
            numbers = ":".join(
                str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in self.intervals[source]
            )
            if source.uuid == uuid:
                parts[-1] += f":{source.tag}:{numbers}"
            else:
                parts.append(f"{source}:{numbers}")
            uuid = source.uuid
        return ",".join(parts)

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def count(self) -> int:
        """How many GTIDs are in it."""
        return sum(b - a for pairs in self.intervals.values() for a, b in pairs)

    def has(self, source: GtidSource, gno: int) -> bool:
        """Whether it holds one GTID."""
        return any(a <= gno < b for a, b in self.intervals.get(source, ()))

    def add(self, source: GtidSource, gno: int) -> GtidSet:
        """The set with one GTID more."""
        return self.union(GtidSet({source: ((gno, gno + 1),)}))

    def union(self, other: GtidSet) -> GtidSet:
        """Everything that either holds."""
        merged = dict(self.intervals)
        for source, pairs in other.intervals.items():
            merged[source] = _normal((*merged.get(source, ()), *pairs))
        return GtidSet(merged)

    def subtract(self, other: GtidSet) -> GtidSet:
        """What this holds and the other does not."""
        left = {s: _minus(p, other.intervals.get(s, ())) for s, p in self.intervals.items()}
        return GtidSet({s: p for s, p in left.items() if p})

    def contains(self, other: GtidSet) -> bool:
        """Whether every GTID of the other is in it."""
        return not other.subtract(self)

    def encode(self) -> bytes:
        """The binary form; tags are written only if there are any."""
        sources = sorted(self.intervals)
        tagged = any(s.tag for s in sources)
        if tagged:
            head = (_TAGGED << 56 | len(sources) << 8 | _TAGGED).to_bytes(8, "little")
        else:
            head = len(sources).to_bytes(8, "little")
        out = [head]
        for source in sources:
            out.append(UUID(source.uuid).bytes)
            if tagged:
                out.append(bytes([len(source.tag) << 1]) + source.tag.encode())
            pairs = self.intervals[source]
            out.append(len(pairs).to_bytes(8, "little"))
            out.extend(a.to_bytes(8, "little") + b.to_bytes(8, "little") for a, b in pairs)
        return b"".join(out)

    @classmethod
    def decode(cls, data: bytes) -> GtidSet:
        """From the binary form; :class:`EventMalformed` where it is none."""
        cursor = Cursor(data, "GTID set")
        head = cursor.take(8, "number of sources")
        tagged = head[7] == _TAGGED
        count = int.from_bytes(head[1:7] if tagged else head, "little")
        found: dict[GtidSource, Intervals] = {}
        for _ in range(count):
            uuid = str(UUID(bytes=cursor.take(16, "uuid")))
            tag = ""
            if tagged:
                tag_bytes = cursor.take(cursor.uint(1, "tag length") >> 1, "tag")
                tag = tag_bytes.decode("ascii", "replace")
            source = GtidSource(uuid, tag)
            pairs = tuple(_decoded_intervals(cursor))
            found[source] = _normal((*found.get(source, ()), *pairs))
        return cls(found)


def _decoded_intervals(cursor: Cursor) -> Iterator[tuple[int, int]]:
    for _ in range(cursor.uint(8, "number of intervals")):
        start = cursor.uint(8, "interval start")
        end = cursor.uint(8, "interval end")
        if not 0 < start < end <= MAX_GNO:
            raise EventMalformed(f"GTID set: interval {start} to {end} is impossible")
        yield start, end


def _uuid(text: str, whole: str) -> str:
    if not _UUID.match(text):
        raise GtidTextBad(f"{text!r} is not a server uuid", object=whole)
    return str(UUID(text))


def _interval(text: str, whole: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not _NUMBER.match(first) or (dash and not _NUMBER.match(last)):
        raise GtidTextBad(f"{text!r} is not a number or a range", object=whole)
    start, end = int(first), int(last or first) + 1
    if not 0 < start < end <= MAX_GNO:
        raise GtidTextBad(f"the range {text!r} is empty or out of bounds", object=whole)
    return start, end


class MariadbGtid(NamedTuple):
    """One MariaDB GTID, ``domain-server-sequence``."""

    domain: int
    server_id: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server_id}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> MariadbGtid:
        """From its text; :class:`GtidTextBad` else."""
        found = re.fullmatch(r"\s*(\d{1,10})-(\d{1,10})-(\d{1,20})\s*", text, re.ASCII)
        if found is None:
            raise GtidTextBad(f"{text!r} is not a MariaDB GTID", object=text)
        domain, server_id, sequence = (int(x) for x in found.groups())
        if domain >= 1 << 32 or server_id >= 1 << 32 or sequence >= 1 << 64:
            raise GtidTextBad(f"a number of {text!r} is out of bounds", object=text)
        return cls(domain, server_id, sequence)


@dataclass(frozen=True)
class MariadbGtidPosition:
    """The last GTID by domain: where a MariaDB replica stands (``slave_connect_state``)."""

    domains: Mapping[int, MariadbGtid] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> MariadbGtidPosition:
        """From ``0-1-100,1-2-7``; a domain may appear once."""
        found: dict[int, MariadbGtid] = {}
        for part in text.split(","):
            if not part.strip():
                continue
            gtid = MariadbGtid.parse(part)
            if gtid.domain in found:
                raise GtidTextBad(f"domain {gtid.domain} appears twice", object=text)
            found[gtid.domain] = gtid
        return cls(found)

    def __str__(self) -> str:
        return ",".join(str(self.domains[d]) for d in sorted(self.domains))

    def __bool__(self) -> bool:
        return bool(self.domains)

    def advance(self, gtid: MariadbGtid) -> MariadbGtidPosition:
        """The position after ``gtid``, whatever stood in its domain before."""
        return MariadbGtidPosition({**self.domains, gtid.domain: gtid})

    def reached(self, gtid: MariadbGtid) -> bool:
        """Whether the domain of ``gtid`` stands at or behind its sequence number."""
        have = self.domains.get(gtid.domain)
        return have is not None and have.sequence >= gtid.sequence
