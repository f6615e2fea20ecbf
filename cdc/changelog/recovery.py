"""What a log is after its writer was killed: the plan is pure, the effect cuts and removes.

The truth is the last manifest line all of whose files are long enough. What lies behind the
lengths that it names is a torn tail: never committed, cut here, and pulled again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc.changelog import files, names
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.manifest import ManifestLine, corrupt, read_lines
from cdc.changelog.state import LogState


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """The state to go on from; lengths that files are cut to; files that go."""

    state: LogState
    cut: tuple[tuple[str, int], ...]
    remove: tuple[str, ...]


def _lengths(state: LogState) -> dict[str, int]:
    wanted = {}
    for segment in state.segments():
        wanted[names.data_name(segment.number)] = segment.data
        wanted[names.index_name(segment.number)] = segment.index
    if state.tables_length:
        wanted[names.TABLES] = state.tables_length
    return wanted


def _shortened(wanted: Mapping[str, int], sizes: Mapping[str, int]) -> str | None:
    return next((n for n, length in wanted.items() if sizes.get(n, 0) < length), None)


def _choose(lines: Sequence[ManifestLine], sizes: Mapping[str, int]) -> ManifestLine:
    missing = ""
    for line in reversed(lines):
        wanted = _lengths(line.state)
        short = _shortened(wanted, sizes)
        if short is None:
            return line
        missing = missing or f"{short}:{sizes.get(short, 0)}"
    raise LogCorrupt(
        "a file is shorter than every line of the manifest says",
        object=missing.partition(":")[0],
        position=missing,
        hint="restore the file from a copy, or remove the log and pull the upstream anew",
    )


def plan(lines: Sequence[ManifestLine], sizes: Mapping[str, int]) -> RecoveryPlan:
    """Decide from the manifest's lines and the sizes of all files of the folder.

    ``lines`` is not empty. Raises LogCorrupt where bytes are missing that the manifest's only
    line already counts on.
    """
    chosen = _choose(lines, sizes)
    wanted = _lengths(chosen.state) | {names.MANIFEST: chosen.end}
    cut = [(n, length) for n, length in wanted.items() if sizes[n] > length]
    remove = [
        n
        for n in sizes
        if n not in wanted
        and (names.segment_of(n) is not None or n.endswith(names.TEMPORARY) or n == names.TABLES)
    ]
    return RecoveryPlan(chosen.state, tuple(cut), tuple(sorted(remove)))


def look(folder: Path) -> RecoveryPlan | None:
    """The plan for a folder as it is, or None if no log was begun there."""
    sizes = {e.name: e.stat().st_size for e in os.scandir(folder) if e.is_file()}
    if names.MANIFEST not in sizes:
        begun = sorted(n for n in sizes if names.segment_of(n) is not None or n == names.TABLES)
        if begun:
            raise corrupt(0, f"there is {begun[0]} but no manifest")
        return None
    lines = list(read_lines((folder / names.MANIFEST).read_bytes()))
    if not lines:
        raise corrupt(0, "the manifest has no complete line")
    return plan(lines, sizes)


def cut(folder: Path, decided: RecoveryPlan) -> None:
    """Carry out a plan; killed in its middle, the next start makes the same plan again."""
    # The manifest is cut last: until then it still explains every other file.
    for name, length in sorted(decided.cut, key=lambda item: item[0] == names.MANIFEST):
        fd = os.open(folder / name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(fd, length)
            os.fsync(fd)
        finally:
            os.close(fd)
    for name in decided.remove:
        (folder / name).unlink()
    files.sync_folder(folder)
