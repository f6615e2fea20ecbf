"""Statements of segments that are gone: what later readers need to follow the schema.

Segments go when every changefeed has passed them; the schema of what stays still follows from the
oldest snapshot that is kept and every statement behind it. One file of JSON lines with a CRC each:
first ``above``, the ts of that snapshot; then ``ts``, and the QUERY event as it lay in its segment
(base64).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path

from cdc.base.ts import Ts
from cdc.changelog import files, lines, names
from cdc.changelog.errors import LogCollected, LogCorrupt

_NAME = f"{names.SCHEMA_FOLDER}/{names.STATEMENTS}"


def _path(folder: Path) -> Path:
    return folder / names.SCHEMA_FOLDER / names.STATEMENTS


def read(folder: Path, lo_ts: Ts, hi_ts: Ts) -> Iterator[tuple[Ts, bytes]]:
    """Kept statements with ``lo_ts < ts <= hi_ts``, rising.

    Raises LogCorrupt, and LogCollected if there may have been others.
    """
    try:
        data = _path(folder).read_bytes()
    except FileNotFoundError:
        return
    end = 0
    for line in lines.scan(data):
        if line.body is None:
            break
        end = line.end
        value = line.parse()
        if "above" in value:
            if lo_ts < min(value["above"], hi_ts):
                raise LogCollected(
                    f"statements are kept above ts {value['above']}",
                    object=_NAME,
                    position=f"ts {lo_ts}",
                    hint="begin with a newer schema snapshot",
                )
        elif lo_ts < value["ts"] <= hi_ts:
            yield value["ts"], base64.b64decode(value["event"])
    if end < len(data):
        # The file is replaced as a whole: also a line without an end is damage, not a torn tail.
        raise LogCorrupt(
            "a statement that was kept has a wrong CRC",
            object=_NAME,
            position=f"{_NAME}:{end}",
            hint="restore the file from a copy, or register the upstream anew",
        )


def keep(folder: Path, above: Ts, found: Iterable[tuple[Ts, bytes]]) -> None:
    """Add statements, durably, before their segments go; those at or below ``above`` may go too.

    Repeating it changes nothing.
    """
    last = above
    kept = [lines.encode({"above": above})]
    for ts, event in (*read(folder, above, 1 << 62), *found):
        if ts > last:
            kept.append(lines.encode({"ts": ts, "event": base64.b64encode(event).decode()}))
            last = ts
    path = _path(folder)
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700)
        files.sync_folder(folder)
    files.replace(path, b"".join(kept))
