"""A log over the logs of several nodes: it has their order, and they have the rows.

A row of its index names a segment of a node's log: the node's place in the file ``nodes``, and that
log's own number, in one integer. Segments of its own hold what it does not leave where it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdc.base.ts import Ts
from cdc.changelog import files, lines, names
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.index import Runs
from cdc.changelog.log_files import LogFiles
from cdc.changelog.startup import read_index
from cdc.changelog.state import LogState, SegmentInfo

if TYPE_CHECKING:
    from cdc.changelog.reader import ChangeLog

_BITS = 24
# What is left of 31 bits, without the place of segments of its own.
MOST_NODES = 126
SEGMENTS_END = 1 << _BITS


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """A node, and where its log lies: a path below or beside the merged log's folder."""

    name: str
    folder: str


class Place(NamedTuple):
    """A segment of a node's log: the node's place among the nodes, and the log's own number."""

    node: int
    segment: int


def place_of(segment: int) -> Place | None:
    """Where a segment that a row names lies; None if it is the log's own."""
    node, number = divmod(segment, SEGMENTS_END)
    return Place(node - 1, number) if node > 0 else None


def placed(node: int, segments: NDArray[np.int32]) -> NDArray[np.int32]:
    """The numbers (int32) by which rows of a merged log name segments of a node's log."""
    return segments + np.int32((node + 1) << _BITS)


def save(folder: Path, nodes: Sequence[NodeFolder]) -> None:
    """Say durably that a log is over the logs of these nodes. Places of nodes never change."""
    files.replace(
        folder / names.NODES, lines.encode({"nodes": [[n.name, n.folder] for n in nodes]})
    )


def load(folder: Path) -> tuple[NodeFolder, ...]:
    """The nodes of a log; none if all its rows are its own. Raises LogCorrupt."""
    try:
        found = list(lines.scan((folder / names.NODES).read_bytes()))
    except FileNotFoundError:
        return ()
    if len(found) != 1 or found[0].body is None:
        raise LogCorrupt(
            "it has a wrong CRC",
            object=names.NODES,
            position=f"{names.NODES}:0",
            hint="restore the file from a copy, or create the upstream anew",
        )
    return tuple(NodeFolder(str(name), str(where)) for name, where in found[0].parse()["nodes"])


def first_segments(folder: Path, info: SegmentInfo) -> dict[int, int]:
    """The lowest segment of each node, by the node's place, that rows of a segment point to.

    Raises LogCorrupt.
    """
    found: dict[int, int] = {}
    for number in np.unique(read_index(folder, info).segment).tolist():
        place = place_of(number)
        if place is not None:
            found.setdefault(place.node, place.segment)
    return found


def collectable(state: LogState, first_segment: int | None, merged_ts: Ts) -> Ts:
    """Up to which ts a node's log may go: below ``first_segment``, and what is merged already."""
    if first_segment is None:
        return merged_ts
    before = [s.last_ts for s in state.segments() if s.number < first_segment]
    return min(merged_ts, before[-1] if before else 0)


class NodeLogs:
    """The logs of the nodes, opened when a row is in one of them; safe for several threads."""

    def __init__(self, log_files: LogFiles, opened: Callable[[LogFiles], ChangeLog]) -> None:
        self._files = log_files
        self._opened = opened
        self._lock = threading.Lock()
        self._nodes: tuple[NodeFolder, ...] = ()
        self._logs: dict[int, ChangeLog] = {}
        self._behind: set[int] = set()

    def at(self, place: Place) -> ChangeLog:
        """The log of a place, at least as far as the merged log was read.

        Raises LogMissing, LogCorrupt.
        """
        with self._lock:
            if place.node >= len(self._nodes):
                self._files.whole(names.NODES)
                self._nodes = load(self._files.folder)
            if place.node >= len(self._nodes):
                raise LogCorrupt(
                    f"a row is of node number {place.node}, which is not among the nodes",
                    object=names.NODES,
                    position=f"{names.NODES}:0",
                    hint="restore the file from a copy, or create the upstream anew",
                )
            log = self._logs.get(place.node)
            if log is None:
                beside = self._files.beside(self._nodes[place.node].folder)
                log = self._logs[place.node] = self._opened(beside)
            elif place.node in self._behind:
                log.refresh()
            self._behind.discard(place.node)
            return log

    def verify(self, place: Place, runs: Runs) -> None:
        """As :meth:`ChangeLog.verify`, of runs that all lie in this place."""
        log = self.at(place)
        own = np.full(len(runs), place.segment, np.int32)
        log.verify(Runs.build(len(runs), segment=own, offset=runs.offset, length=runs.length))

    def grown(self) -> None:
        """The merged log has read on: rows may lie in what was written since."""
        with self._lock:
            self._behind.update(self._logs)

    def forget_below(self, ts: Ts) -> None:
        """As :meth:`ChangeLog.forget_below`: no node has a transaction before its merged ts."""
        with self._lock:
            for log in self._logs.values():
                log.forget_below(ts)

    def close(self) -> None:
        """Close all that are open."""
        with self._lock:
            for log in self._logs.values():
                log.close()
            self._logs.clear()
