"""What a window takes of the log: runs of all tables, and of those that catch up with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from processor.standing import Standing, together
from processor.takeover import Takeover
from processor.window import Window, take


def late_runs(
    log: ChangeLog,
    taken: Takeover,
    standing: Standing,
    caps: Mapping[str, Ts],
    size: int,
    ties: Iterable[tuple[str, str]],
) -> tuple[Runs, dict[str, Position]]:
    """Runs that tables catch up, and up to where they are complete: a share of ``size`` bytes each.

    Others wait for no more than a window's work. ``ties`` are pairs of tables that go together.
    """
    whole = taken.sink.whole_transactions
    behind = standing.behind(caps)
    parts, caught = [], {}
    for table, span in behind.items():
        ids = taken.catalog.ids_of(table)
        share = max(1, size // len(behind))
        runs, caught[table] = take(log, span.lo, span.hi, ids, share, whole=whole)
        parts.append(runs)
    return Runs.concat(parts), together(caught, behind, ties)


def main_runs(log: ChangeLog, taken: Takeover, window: Window, size: int) -> tuple[Runs, Position]:
    """Runs of about ``size`` bytes of a window, and their end."""
    if window.lo == window.hi:
        return Runs.empty(), window.hi
    whole = taken.sink.whole_transactions
    return take(log, window.lo, window.hi, taken.catalog.ids, size, whole=whole)
