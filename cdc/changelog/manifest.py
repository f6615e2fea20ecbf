"""The manifest: one line per group commit; the last valid line is the truth.

The first line is a *base*: it lists the closed segments. The file is rewritten atomically at each
new segment, at retention, and when it has grown long. Where it can, a rewrite keeps the state
before as a base line of its own, so that there is one to go back to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cdc.changelog import files, lines, names
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.state import BASE_HEAD, LogState, SegmentInfo, from_json, to_json


class ManifestLine(NamedTuple):
    """A state and where its line ends in the file."""

    end: int
    state: LogState


def corrupt(offset: int, why: str) -> LogCorrupt:
    """The error for a manifest that cannot be trusted at ``offset``."""
    return LogCorrupt(
        why,
        object=names.MANIFEST,
        position=f"{names.MANIFEST}:{offset}",
        hint="restore the file from a copy, or remove the log and pull the upstream anew",
    )


def read_lines(
    data: bytes, start: int = 0, closed: tuple[SegmentInfo, ...] = ()
) -> Iterator[ManifestLine]:
    """States of the complete lines; ``start`` is the offset of ``data`` in the file.

    Raises LogCorrupt at the first complete line whose CRC is wrong. A tail without a newline is
    a write that did not happen.
    """
    for line in lines.scan(data, start):
        if line.body is None:
            raise corrupt(line.start, "a line of the manifest has a wrong CRC")
        try:
            value = line.parse()
            if line.start == 0 and "closed" not in value:
                raise KeyError("closed")
            state = from_json(value, closed)
        except (KeyError, ValueError, TypeError) as error:
            raise corrupt(line.start, f"a manifest line is not understood: {error}") from None
        closed = state.closed
        yield ManifestLine(line.end, state)


def last_state(
    data: bytes, start: int = 0, closed: tuple[SegmentInfo, ...] = ()
) -> ManifestLine | None:
    """The last complete line; every line's CRC is checked, at most two are parsed."""
    base = last = None
    for line in lines.scan(data, start):
        if line.body is None:
            raise corrupt(line.start, "a line of the manifest has a wrong CRC")
        if line.start == 0 or line.body.startswith(BASE_HEAD):
            base = line
        last = line
    if last is None:
        return None
    for line in (base, last) if base is not None else (last,):
        (result,) = read_lines(data[line.start - start : line.end - start], line.start, closed)
        closed = result.state.closed
    return result


class ManifestWriter:
    """Appends states to the manifest of a folder, each durable when the call returns."""

    def __init__(self, folder: Path, rewrite_bytes: int) -> None:
        self._path = folder / names.MANIFEST
        self._rewrite_bytes = rewrite_bytes
        self._fd = -1
        self._length = 0
        self._base_length = 0

    def rewrite(self, state: LogState, before: LogState | None = None) -> None:
        """Replace the file by the base line of ``state``, behind that of the state ``before``."""
        line = lines.encode(to_json(state, base=True))
        if before is not None:
            line = lines.encode(to_json(before, base=True)) + line
        files.replace(self._path, line)
        self.close()
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        self._length = self._base_length = len(line)

    def append(self, state: LogState, before: LogState) -> None:
        """Add a line behind that of ``before``; the closed segments are those of the base line."""
        if self._length - self._base_length > self._rewrite_bytes:
            self.rewrite(state, before)
            return
        line = lines.encode(to_json(state, base=False))
        files.write_at(self._fd, memoryview(line), self._length)
        os.fdatasync(self._fd)
        self._length += len(line)

    def close(self) -> None:
        """Close the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
