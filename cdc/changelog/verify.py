"""Checking every byte of a log against the checksums that were written with it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cdc.changelog import lines, manifest, names
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.index_file import damage_at
from cdc.changelog.segment_file import MAGIC
from cdc.changelog.state import LogState, SegmentInfo
from cdc.changelog.tables import Dictionaries
from cdc.kernels.crc import check_events


@dataclass(frozen=True, slots=True)
class LogDamage:
    """Something that is not as it was written: ``file``, byte ``offset``, and ``what``."""

    file: str
    offset: int
    what: str

    def error(self) -> LogCorrupt:
        """The same as an error."""
        return LogCorrupt(
            self.what,
            object=self.file,
            position=f"{self.file}:{self.offset}",
            hint="restore the file from a copy, or remove the log and pull the upstream anew",
        )


def map_file(path: Path, length: int) -> NDArray[np.uint8]:
    """The first ``length`` bytes of a file, read-only and file-backed."""
    if length == 0:
        return np.zeros(0, np.uint8)
    return np.memmap(path, np.uint8, "r", shape=(length,)).view(np.ndarray)


def check_data(folder: Path, segment: SegmentInfo) -> LogDamage | None:
    """Magic, and length and CRC of every event of a segment."""
    name = names.data_name(segment.number)
    size = _size(folder / name)
    if size < segment.data:
        return LogDamage(name, size, f"the segment is shorter than {segment.data} bytes")
    data = map_file(folder / name, segment.data)
    if bytes(data[: len(MAGIC)]) != MAGIC:
        return LogDamage(name, 0, "the segment does not begin with the magic of a binlog file")
    end, bad = check_events(data, len(MAGIC), len(data))
    if bad >= 0:
        return LogDamage(name, int(bad), "an event has an impossible length or a wrong CRC")
    if end != len(data):
        return LogDamage(name, int(end), "an event is longer than what is left of the segment")
    return None


def check_index(folder: Path, segment: SegmentInfo) -> LogDamage | None:
    """CRC of a segment's index file."""
    name = names.index_name(segment.number)
    size = _size(folder / name)
    if size < segment.index:
        return LogDamage(name, size, f"the index is shorter than {segment.index} bytes")
    with (folder / name).open("rb") as file:
        data = file.read(segment.index)
    if zlib.crc32(data) != segment.index_crc:
        return LogDamage(name, damage_at(data), "the index has a wrong CRC from this batch on")
    return None


def verify(folder: Path, *, live: bool = False) -> list[LogDamage]:
    """All that is wrong with a log; empty if all is right.

    Bytes behind the committed lengths are findings too, as there are none after a clean stop;
    not so of a ``live`` log, which somebody writes at the moment.
    """
    try:
        data = (folder / names.MANIFEST).read_bytes()
    except FileNotFoundError:
        return [LogDamage(names.MANIFEST, 0, "there is no manifest")]
    try:
        for line in manifest.read_lines(data):
            last = line
        state, end = last.state, last.end
    except LogCorrupt as error:
        return [_from(error)]
    except UnboundLocalError:
        return [LogDamage(names.MANIFEST, 0, "the manifest has no complete line")]
    findings = []
    if end != len(data) and not live:
        findings.append(LogDamage(names.MANIFEST, end, "a line is torn"))
    for segment in state.segments():
        found = (check_data(folder, segment), check_index(folder, segment))
        findings += [f for f in found if f is not None]
    findings += _check_tables(folder, state)
    findings += _check_snapshots(folder)
    if not live:
        findings += _check_tails(folder, state)
    return findings


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _from(error: LogCorrupt) -> LogDamage:
    file, _, offset = error.position.rpartition(":")
    return LogDamage(file, int(offset), error.message)


def _check_tables(folder: Path, state: LogState) -> Iterator[LogDamage]:
    size = _size(folder / names.TABLES)
    if size < state.tables_length:
        yield LogDamage(names.TABLES, size, f"shorter than {state.tables_length} bytes")
        return
    if not state.tables_length:
        return
    with (folder / names.TABLES).open("rb") as file:
        data = file.read(state.tables_length)
    try:
        taken = Dictionaries().load(data)
    except LogCorrupt as error:
        yield _from(error)
        return
    if taken != len(data):
        yield LogDamage(names.TABLES, taken, "a line is torn")


def _check_snapshots(folder: Path) -> Iterator[LogDamage]:
    schema = folder / names.SCHEMA_FOLDER
    for path in sorted(schema.iterdir()) if schema.is_dir() else []:
        data = path.read_bytes()
        found = list(lines.scan(data))
        if len(found) != 1 or found[0].body is None or found[0].end != len(data):
            name = f"{names.SCHEMA_FOLDER}/{path.name}"
            yield LogDamage(name, 0, "the snapshot has a wrong CRC")


def _check_tails(folder: Path, state: LogState) -> Iterator[LogDamage]:
    lengths = {names.TABLES: state.tables_length}
    for segment in state.segments():
        lengths[names.data_name(segment.number)] = segment.data
        lengths[names.index_name(segment.number)] = segment.index
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        known = entry.name in lengths or names.segment_of(entry.name) is not None
        if known and entry.stat().st_size > lengths.get(entry.name, 0):
            at = lengths.get(entry.name, 0)
            yield LogDamage(entry.name, at, "bytes behind what was committed")
