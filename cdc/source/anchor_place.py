"""Where a log has to read on that begins at a state of another, with what is prepared there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cdc.binlog.gtid_set import GtidSet
from cdc.changelog import names
from cdc.changelog.startup import prepared_at
from cdc.changelog.state import LogState
from cdc.changelog.tables import Dictionaries


def has_place(state: LogState, by_set: bool) -> bool:
    """Whether :func:`place` may know one."""
    return not state.prepared_from or (by_set and state.position.get("gtid") is not None)


def place(folder: Path, state: LogState, by_set: bool) -> dict[str, Any] | None:
    """The upstream's position; None if it would leave out rows that are prepared at ``state``.

    ``by_set``: the server sends whatever a GTID set lacks, as MySQL's do. Without the GTIDs of what
    is prepared it sends that first, however far back it lies, and then what comes behind ``state``.
    A position of MariaDB, or an offset, cannot say so. Raises LogCorrupt.
    """
    if not state.prepared_from:
        return state.position
    if not has_place(state, by_set):
        return None
    rows = prepared_at(folder, state).rows()
    dictionaries = Dictionaries()
    dictionaries.load((folder / names.TABLES).read_bytes()[: state.tables_length])
    prepared = GtidSet()
    for source, sequence in {*zip(rows.gtid_source.tolist(), rows.gtid_seq.tolist(), strict=True)}:
        if source < 0:
            return None
        prepared = prepared.union(GtidSet.parse(f"{dictionaries.sources[source]}:{sequence}"))
    return {**state.position, "gtid": str(GtidSet.parse(state.position["gtid"]).subtract(prepared))}
