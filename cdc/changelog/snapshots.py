"""Schema snapshots kept with a log: one file for each ts, complete or not there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cdc.base.ts import Ts
from cdc.changelog import files, lines, names
from cdc.changelog.errors import LogCorrupt


def _path(folder: Path, ts: Ts) -> Path:
    return folder / names.SCHEMA_FOLDER / f"{ts}.json"


def save(folder: Path, ts: Ts, snapshot: dict[str, Any]) -> None:
    """Keep a snapshot; a second one of the same ts replaces the first."""
    path = _path(folder, ts)
    if not path.parent.is_dir():
        path.parent.mkdir()
        files.sync_folder(folder)
    files.replace(path, lines.encode({"ts": ts, "snapshot": snapshot}))


def list_ts(folder: Path) -> list[Ts]:
    """Ts of all snapshots, rising."""
    schema = folder / names.SCHEMA_FOLDER
    if not schema.is_dir():
        return []
    return sorted(int(p.stem) for p in schema.glob("*.json") if p.stem.isdigit())


def load(folder: Path, ts: Ts) -> dict[str, Any]:
    """The snapshot of exactly this ts. Raises LogCorrupt if its CRC is wrong."""
    path = _path(folder, ts)
    data = path.read_bytes()
    found = list(lines.scan(data))
    if len(found) == 1 and found[0].body is not None and found[0].end == len(data):
        value = found[0].parse()
        if value["ts"] == ts:
            snapshot: dict[str, Any] = value["snapshot"]
            return snapshot
    name = f"{names.SCHEMA_FOLDER}/{path.name}"
    raise LogCorrupt(
        "the schema snapshot has a wrong CRC",
        object=name,
        position=f"{name}:0",
        hint="restore the file from a copy, or register the upstream anew",
    )


def remove_below(folder: Path, first_ts: Ts, starts: Iterable[Ts] = ()) -> None:
    """Remove snapshots that no start at or above ``first_ts``, nor one of ``starts``, needs."""
    all_ts = list_ts(folder)
    needed = {bisect_right(all_ts, start) - 1 for start in (first_ts, *starts)}
    for i in range(bisect_right(all_ts, first_ts)):
        if i not in needed:
            _path(folder, all_ts[i]).unlink()
