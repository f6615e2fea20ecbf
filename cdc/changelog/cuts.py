"""Where each node stood where a log of shards begins: what its rows do not say any more.

The order among shards is ours alone, so a position says of every node which transaction is the last
one below it: a *cut*. In a log that is told by its rows; of a node without rows, by what stands
here. One file of JSON lines with a CRC each: ``at``, a ts of the log, and ``name``, the last
transaction at or below it with its cut. A log without the file has no cuts.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cdc.base.position import TransactionName
from cdc.base.ts import Ts
from cdc.changelog import files, lines, names
from cdc.changelog.errors import LogCorrupt


class KeptCut(NamedTuple):
    """The last transaction at or below ``at``, with its cut."""

    at: Ts
    name: TransactionName


def load(folder: Path) -> list[KeptCut] | None:
    """All that is kept, rising; None of a log without cuts. Raises LogCorrupt."""
    try:
        data = (folder / names.CUTS).read_bytes()
    except FileNotFoundError:
        return None
    found = []
    for line in lines.scan(data):
        if line.body is None:
            raise LogCorrupt(
                "it has a wrong CRC",
                object=names.CUTS,
                position=f"{names.CUTS}:{line.end}",
                hint="restore the file from a copy, or move the log's folder away: it is made anew",
            )
        value = line.parse()
        found.append(KeptCut(int(value["at"]), TransactionName.of(value["name"])))
    return found


def newest(folder: Path, ts: Ts) -> KeptCut | None:
    """The newest that is kept at or below ``ts``. Raises LogCorrupt."""
    return max((kept for kept in load(folder) or () if kept.at <= ts), default=None)


def keep(folder: Path, at: Ts, name: TransactionName) -> None:
    """Add one, durably, before rows at or below ``at`` go; of those before it the last stays.

    A reader that has not seen yet that rows are gone may still ask for what is below it.
    """
    kept = [one for one in load(folder) or () if one.at < at][-1:]
    kept.append(KeptCut(at, name))
    data = [lines.encode({"at": one.at, "name": one.name.to_list()}) for one in kept]
    files.replace(folder / names.CUTS, b"".join(data))
