"""What a worker has planned of a changefeed's tables, one version of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import DefiniteError, InternalError, InvalidError, TidegateError
from cdc.changelog.index import Runs
from cdc.kernels import layout
from cdc.rows.plan import Matrix, PlanSet
from processor.catalog import Numbering, Replicated, Unfit
from sink.contract import Deliverer, Destination

Current = Callable[[Replicated], bool]
"""Whether a table's schema is still the one of that version."""

# Few tables are not planned anew all the time.
_SPARE = 32


class Plans:
    """Plans of tables, made when a window first needs them; ``plans`` is what kernels take.

    A new version of a table is planned behind those that are there. Versions that no row can need
    any more are left out when all is planned anew: once they are the greater part, or where the
    target, which has gone on, no longer agrees with them.
    """

    def __init__(self, numbering: Numbering, *, mariadb: bool) -> None:
        self.numbering = numbering
        self._mariadb = mariadb
        self._entries: dict[int, Replicated] = {}
        self._planned = 0
        self._room = 0
        self._plan_of: NDArray[np.int64] = np.full(0, -1, np.int64)
        self._plans: PlanSet | None = None
        self.failed: str | None = None

    @property
    def plans(self) -> PlanSet:
        """The plans of the last ``refresh``."""
        if self._plans is None:
            raise InternalError("nothing is planned", object="plans")
        return self._plans

    def clear(self) -> None:
        """Forget all: the deliverer that they were made with is gone."""
        self._entries = {}
        self._plans = None

    def refresh(
        self,
        in_force: Mapping[int, Replicated | Unfit | None],
        destinations: Collection[Destination],
        sink: Deliverer,
        current: Current,
    ) -> list[int]:
        """Plan what a window needs; ids of its tables that have rows for these destinations.

        Errors of single tables name theirs in ``failed``.
        """
        wanted = set(destinations)
        ours = {
            i: r
            for i, r in in_force.items()
            if isinstance(r, Replicated) and not wanted.isdisjoint(r.route.destinations())
        }
        for one in in_force.values():
            if isinstance(one, Unfit):
                # The driver has looked at the same rows and let no such table pass.
                self.failed = one.name
                raise one.error
        new = {i: r for i, r in ours.items() if self._entries.get(i) is not r}
        if self._plans is None:
            self._plan_all(ours, new, sink)
        elif new and not self._plan_behind(new, sink):
            kept = {i: r for i, r in self._entries.items() if i in ours or current(r)}
            self._plan_all(kept | ours, new, sink)
        return list(ours)

    def _plan_behind(self, new: dict[int, Replicated], sink: Deliverer) -> bool:
        """Plan these behind the others; whether that could be done, and was worth it."""
        live = len(self._entries.keys() | new.keys())
        if self._planned + len(new) > min(2 * live, self._room):
            return False
        try:
            self._plans = self._plan(new.values(), sink, more=True)
        except (DefiniteError, InvalidError):
            # It may be about a version that is not needed any more.
            return False
        self._number(self._entries | new, new.values(), self._planned)
        return True

    def _plan_all(
        self, entries: dict[int, Replicated], new: Mapping[int, Replicated], sink: Deliverer
    ) -> None:
        try:
            self._plans = self._plan(entries.values(), sink)
        except (DefiniteError, InvalidError):
            old = [r for i, r in entries.items() if i not in new]
            for one in new.values():
                # Whose error it is shows when each is planned by itself.
                self.failed = one.name
                self._plan([*old, one], sink)
            self.failed = None
            raise
        self._plan_of = np.full(0, -1, np.int64)
        self._number(entries, entries.values(), 0)
        # An altered table has another id, and so has one that comes and goes: which of them are
        # still needed is looked at whenever there are twice as many.
        self._room = 2 * len(entries) + _SPARE

    def _number(
        self, entries: dict[int, Replicated], planned: Collection[Replicated], first: int
    ) -> None:
        """Note the plan index of each table; that of ``planned`` begins with ``first``."""
        room = max(entries, default=-1) + 1
        plan_of = np.full(max(room, len(self._plan_of)), -1, np.int64)
        plan_of[: len(self._plan_of)] = self._plan_of
        plan_of[[one.id for one in planned]] = np.arange(first, first + len(planned))
        self._entries, self._plan_of, self._planned = entries, plan_of, first + len(planned)

    def _plan(
        self, listed: Collection[Replicated], sink: Deliverer, *, more: bool = False
    ) -> PlanSet:
        return sink.plan(
            [(r.table, r.table_map, self.numbering.codec_route(r)) for r in listed],
            mariadb=self._mariadb,
            more=more,
        )

    def matrix(self, runs: Runs) -> Matrix:
        """int64[len(runs), RUN_SIZE]: the runs as ``RowBatch`` takes them."""
        matrix = np.empty((len(runs), layout.RUN_SIZE), np.int64)
        matrix[:, layout.RUN_OFFSET] = runs.offset
        matrix[:, layout.RUN_LENGTH] = runs.length
        matrix[:, layout.RUN_PLAN] = self._plan_of[runs.table]
        matrix[:, layout.RUN_TS] = runs.commit_ts
        matrix[:, layout.RUN_FIRST_ROW] = runs.first_row
        matrix[:, layout.RUN_SKIP] = 0
        matrix[:, layout.RUN_TAKE] = runs.rows
        return matrix

    def blame(self, error: TidegateError) -> None:
        """Find the table that a definite error about a row is about."""
        if self.failed is None and isinstance(error, DefiniteError | InvalidError):
            for one in self._entries.values():
                about = error.object.removeprefix(one.name)
                if about != error.object and about[:1] in ("", ",", "."):
                    self.failed = one.name
                    return
