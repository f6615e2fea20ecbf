"""``cdc`` with one thing taken away: rows that were there come before changes that they have.

A negative control of the soak of row snapshots. The product has no such switch, so it is patched
here, in a process of the test's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc.base.ts import Ts
from cdc.cli.main import main
from cdc.snapshot.definitions import Definitions
from cdc.snapshot.settle import StagedTable, TableToSettle
from processor import copying

_place = copying._First._place


def _early(
    self: copying._First, definitions: Definitions, staged: Mapping[str, StagedTable], ts: Ts
) -> tuple[Sequence[TableToSettle], Ts, Ts]:
    """Where the last of the tables began to be read, though they are as they were at the end."""
    found, base_ts, ts = _place(self, definitions, staged, ts)
    room = ts - base_ts
    began = max(table.low_ts for table in staged.values()) + 1
    return (found, began, began + room) if began + room < ts else (found, base_ts, ts)


copying._First._place = _early  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
