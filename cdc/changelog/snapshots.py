"""Schema snapshots kept with a log: one file for each ts, complete or not there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cdc.base.ts import Ts
from cdc.changelog import files, lines, names
from cdc.changelog.errors import LogCorrupt

# Of an upstream with many tables each is large.
_MOST = 8


def _path(folder: Path, ts: Ts) -> Path:
    return folder / names.SCHEMA_FOLDER / f"{ts}.json"


def save(folder: Path, ts: Ts, snapshot: dict[str, Any]) -> None:
    """Keep a snapshot; a second one of the same ts replaces the first."""
    path = _path(folder, ts)
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700)
        files.sync_folder(folder)
    files.replace(path, lines.encode({"ts": ts, "snapshot": snapshot}))


def list_ts(folder: Path) -> list[Ts]:
    """Ts of all snapshots, rising."""
    schema = folder / names.SCHEMA_FOLDER
    if not schema.is_dir():
        return []
    return sorted(int(p.stem) for p in schema.glob("*.json") if p.stem.isdigit())


def load(folder: Path, ts: Ts) -> dict[str, Any]:
    """The snapshot of exactly this ts.

    Raises LogCorrupt if its CRC is wrong, FileNotFoundError if it has gone.
    """
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


def trim(folder: Path, first_ts: Ts, starts: Iterable[Ts] = ()) -> None:
    """Remove snapshots that nobody needs: see :func:`spare`."""
    for ts in spare(list_ts(folder), first_ts, starts):
        _path(folder, ts).unlink(missing_ok=True)


def spare(all_ts: Sequence[Ts], first_ts: Ts, starts: Iterable[Ts] = ()) -> list[Ts]:
    """Which of the snapshots (rising) may go.

    Statements lead from any snapshot to every later schema, so one at or below ``first_ts``, where
    the log begins, would do. The newest and those that ``starts`` begin with stay, and of the
    others so many that nobody has far to go.
    """
    begin = max(0, bisect_right(all_ts, first_ts) - 1)
    gone, left = list(all_ts[:begin]), list(all_ts[begin:])
    needed = {left[bisect_right(left, s) - 1] for s in starts if left and s >= left[0]}
    while len(left) > _MOST:
        inner = [i for i in range(1, len(left) - 1) if left[i] not in needed]
        if not inner:
            break
        closest = min(inner, key=lambda i: left[i + 1] - left[i - 1])
        gone.append(left.pop(closest))
    return gone
