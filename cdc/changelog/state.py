"""What a manifest line says: the state of a log after a group commit."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import Any

from cdc.base.ts import Ts

NO_SEGMENT = 0
# How the JSON of a base line begins.
BASE_HEAD = b'{"version":1,"closed":'


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """Durable lengths and summary of one segment.

    ``data`` and ``index`` are bytes; ``index_crc`` the CRC-32 of the index file. ``first_ts`` is
    the first commit ts in its index (0: none), ``last_ts`` the largest that the log had when the
    segment ended. ``ddls`` counts DDL rows. ``oldest`` is the lowest segment that its rows point
    to, itself included. ``time_ms`` is the wall clock of its last commit.
    """

    number: int = NO_SEGMENT
    data: int = 0
    index: int = 0
    index_crc: int = 0
    first_ts: Ts = 0
    last_ts: Ts = 0
    ddls: int = 0
    oldest: int = 0
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class LogState:
    """A log as of one group commit.

    ``resolved_ts``: nothing at or below it will still arrive. ``last_ts``: the largest commit ts
    assigned. ``position``: where the upstream goes on, as the puller wrote it. ``first_ts``: the
    log holds every transaction above it. ``tables_length``: bytes of the dictionary.
    ``prepared_from``: lowest segment with rows of a still prepared XA transaction, 0 if none.
    """

    resolved_ts: Ts = 0
    last_ts: Ts = 0
    position: dict[str, Any] = field(default_factory=dict)
    first_ts: Ts = 0
    tables_length: int = 0
    prepared_from: int = 0
    commits: int = 0
    current: SegmentInfo = SegmentInfo()
    closed: tuple[SegmentInfo, ...] = ()

    @property
    def segment(self) -> int:
        """Number of the segment that is written, 0 before the first."""
        return self.current.number

    @property
    def data_length(self) -> int:
        """Durable bytes of the current segment."""
        return self.current.data

    @property
    def index_length(self) -> int:
        """Durable bytes of the current segment's index."""
        return self.current.index

    @property
    def first_segment(self) -> int:
        """Number of the first segment that is kept, 0 before there is one."""
        return self.closed[0].number if self.closed else self.current.number

    def segments(self) -> tuple[SegmentInfo, ...]:
        """All segments, oldest first."""
        return (*self.closed, self.current) if self.current.number else self.closed

    def bytes(self) -> int:
        """Bytes of all segments, their indexes and the dictionary."""
        return self.tables_length + sum(s.data + s.index for s in self.segments())


def to_json(state: LogState, *, base: bool) -> dict[str, Any]:
    """The object of a manifest line; only a base line carries the closed segments."""
    value: dict[str, Any] = {"version": 1}
    if base:
        value["closed"] = [astuple(s) for s in state.closed]
    return value | {
        "commits": state.commits,
        "resolved_ts": state.resolved_ts,
        "last_ts": state.last_ts,
        "first_ts": state.first_ts,
        "tables": state.tables_length,
        "prepared_from": state.prepared_from,
        "current": astuple(state.current),
        "position": state.position,
    }


def from_json(value: dict[str, Any], closed: tuple[SegmentInfo, ...]) -> LogState:
    """Inverse of ``to_json``; ``closed`` is used where the line does not carry them."""
    if value["version"] != 1:
        raise ValueError(f"manifest version {value['version']} is not known")
    if "closed" in value:
        closed = tuple(SegmentInfo(*s) for s in value["closed"])
    return LogState(
        resolved_ts=value["resolved_ts"],
        last_ts=value["last_ts"],
        position=value["position"],
        first_ts=value["first_ts"],
        tables_length=value["tables"],
        prepared_from=value["prepared_from"],
        commits=value["commits"],
        current=SegmentInfo(*value["current"]),
        closed=closed,
    )
