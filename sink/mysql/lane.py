"""One bucket's connection with a thread of its own: the target works while rows are cut."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import Position
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import Order, RowBatch
from cdc.rows.plan import Matrix
from sink.mysql.cutter import Cutter
from sink.mysql.deliverer import MysqlDeliverer
from sink.mysql.methods import MysqlPlan
from sink.mysql.sql_cutter import SqlCutter

# Chunks that wait behind the one that is being applied: enough to hide our own work.
_AHEAD = 2


class Lane:
    """Runs a ``MysqlDeliverer``'s calls one after the other; errors come out of later calls."""

    def __init__(self, deliverer: MysqlDeliverer) -> None:
        self._deliverer = deliverer
        self._thread = ThreadPoolExecutor(1, "bucket")
        self._pending: deque[Future[None]] = deque()
        self._cutters: tuple[Cutter, ...] = ()
        self._cutter_of: NDArray[np.int64] = np.zeros(0, np.int64)
        self.rows = self.bytes = self.statements = 0

    @property
    def position(self) -> Position:
        """What is delivered, as of the last ``begin``; ask when it has ended."""
        return self._deliverer.position

    def use(self, plan: MysqlPlan) -> None:
        """The plan of all rows from now on. Not while a window is open."""
        self._cutters = (self._deliverer.cutter(plan.rows),)
        if plan.sql is not None:
            self._cutters = (*self._cutters, SqlCutter(plan.sql))
        self._cutter_of = plan.by_sql.astype(np.int64)

    def begin(self) -> None:
        """Lock the bucket; nothing is waited for."""
        self.rows = self.bytes = self.statements = 0
        self._submit(self._deliverer.begin)

    def deliver(self, located: RowBatch, runs: Matrix, order: Order) -> None:
        """Queue rows; waits while too many are queued."""
        while len(self._pending) > _AHEAD:
            self._pending.popleft().result()
        self._submit(lambda: self._apply(located, runs, order))

    def commit(self, ledger: dict[tuple[str, int], Position]) -> None:
        """Commit rows and position; nothing is waited for."""
        self._submit(lambda: self._deliverer.commit(ledger))

    def wait(self) -> None:
        """Wait for all of it; raises the first error."""
        while self._pending:
            self._pending.popleft().result()

    def abort(self) -> None:
        """Give the window up and end the connection."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if any(not one.done() for one in self._pending):
            # A statement that runs would be waited for; the server rolls back without us.
            with suppress(OSError, AttributeError):
                self._deliverer.socket.shutdown(socket.SHUT_RDWR)
        self._thread.shutdown(wait=True)
        self._pending.clear()
        self._deliverer.abort()

    def _submit(self, call: Callable[[], None]) -> None:
        self._pending.append(self._thread.submit(call))

    def _apply(self, located: RowBatch, runs: Matrix, order: Order) -> None:
        for cutter, part in self._stretches(located, order):
            before = self._deliverer.statements
            self.bytes += self._deliverer.apply(cutter, located, runs, part)
            # A connection that was opened anew counts from 0.
            self.statements += max(0, self._deliverer.statements - before)
            self.rows += len(part)

    def _stretches(self, located: RowBatch, order: Order) -> list[tuple[Cutter, Order]]:
        """Consecutive rows whose tables have the same cutter."""
        if len(self._cutters) == 1:
            return [(self._cutters[0], order)]
        which = self._cutter_of[located.refs[order, L.R_PLAN]]
        bounds = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(order)]
        return [(self._cutters[int(which[a])], order[a:b]) for a, b in pairwise(bounds)]
