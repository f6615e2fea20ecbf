"""Row apply at a MySQL or MariaDB target, exactly once, from one Spark Python worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any

import pymysql

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import START, Position
from cdc.binlog.table_map import TableMap
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import Order, RowBatch
from cdc.rows.plan import Matrix
from cdc.rows.route import Route
from cdc.schema.table import Table
from sink.contract import Destination
from sink.dispatch.target import TargetRouter
from sink.mysql import holders, ledger
from sink.mysql.blame import explain
from sink.mysql.connection import SinkSession, Target
from sink.mysql.cutter import Cutter
from sink.mysql.errors import (
    DIVERGED,
    MysqlCommitLost,
    MysqlCommitUnknown,
    MysqlInternal,
    MysqlUnavailable,
    TargetRowMissing,
    is_lost,
    ledger_lost,
    map_error,
    number_of,
)
from sink.mysql.events import ApplyPlan, EventCutter, apply_plan, format_event
from sink.mysql.placement import TARGET as TARGET
from sink.mysql.recheck import Recheck
from sink.mysql.settings import Apply, Atomicity, MysqlSettings
from sink.mysql.sql_cutter import SqlBatch
from sink.mysql.statements import LITERAL_SPARE, Statements

# What one statement carries at most: with more the caches of both sides' processors overflow.
_STATEMENT_BYTES = 512 << 10

Entry = tuple[Table, TableMap, tuple[str, str]]


class DeliverState(Enum):
    """States of a deliverer."""

    READY = "ready"
    OPEN = "open"
    BROKEN = "broken"


# What each call needs, and where it leads if it succeeds; any failure leads to BROKEN.
_TRANSITIONS: dict[str, tuple[DeliverState, DeliverState]] = {
    "begin": (DeliverState.READY, DeliverState.OPEN),
    "send": (DeliverState.OPEN, DeliverState.OPEN),
    "commit": (DeliverState.OPEN, DeliverState.READY),
}


_NO_LEDGER = frozenset((1049, 1146))
# No right to do this, or no such statement.
_DENIED = frozenset((1044, 1064, 1142, 1227, 1235, 1295))


def may_binlog(session: SinkSession) -> bool:
    """Whether a session takes row events. Raises PyMySQL's errors."""
    if session.settings.apply is Apply.SQL or "tidb" in session.target.version.lower():
        # TiDB passes over BINLOG without a word.
        return False
    try:
        Statements(session).prepare(format_event(session.target))
    except pymysql.err.Error as error:
        if number_of(error) not in _DENIED:
            raise
        return False
    return True


class MysqlDeliverer:
    """One connection for one bucket: ``begin``, ``send`` …, ``commit``, and again.

    ``begin`` opens a transaction and locks the bucket's ledger row, which must have our epoch
    (else :class:`FencedEpoch`, and nothing was sent); ``commit`` writes the new position and
    commits both together. Any error, and ``abort``, ends the object: recover with a new epoch and
    make a new one. Not thread-safe.
    """

    def __init__(
        self,
        settings: MysqlSettings,
        feed: FeedId,
        epoch: int,
        bucket: int = 0,
        slot: int = 0,
        *,
        recheck: Recheck | None = None,
        binlog: bool = True,
    ) -> None:
        self._settings = settings
        self._feed = feed
        self._epoch = epoch
        self._bucket = bucket
        self._slot = slot
        self._state = DeliverState.READY
        self._position: Position | None = None
        self._used = False
        self._recheck = recheck or Recheck()
        self._binlog = binlog
        self._session, self._statements = self._open()

    @property
    def state(self) -> DeliverState:
        """Where it stands; ``BROKEN`` is final."""
        return self._state

    @property
    def socket(self) -> Any:
        """The connection's socket."""
        return self._session.socket

    @property
    def target(self) -> Target:
        """The server behind the connection."""
        return self._session.target

    @property
    def position(self) -> Position:
        """What the ledger says is delivered, as of the last ``begin`` or ``commit``."""
        return self._position or START

    def plan(self, entries: Sequence[Entry], *, upstream_mariadb: bool) -> ApplyPlan:
        """Plans of tables, each checked against the target's table as it is now.

        An entry is the upstream's table, its TABLE_MAP and ``(schema, name)`` at the target. Raises
        TargetTableMissing or TargetIncompatible with the reason; nothing is tried on hope. Later
        windows look every RECHECK_S whether the target's tables are still the same, and raise
        TargetChanged if not.
        """
        self._recheck.compare(self._session, entries, upstream_mariadb=upstream_mariadb)
        return apply_plan([(t, m, Route(), at) for t, m, at in entries], self.target.server_id)

    def cutter(self, plan: ApplyPlan) -> EventCutter:
        """Makes payloads for ``send``."""
        return EventCutter(plan, self._settings, self.target)

    def message_limit(self, name: str) -> int:
        """Largest payload of one row: what fits, as base64, into one packet of the target."""
        return (self.target.max_packet - LITERAL_SPARE) // 4 * 3

    def batch_limit(self, name: str) -> int:
        """Largest payload of one ``send``, unless it is a single row."""
        return min(_STATEMENT_BYTES, self.message_limit(name))

    @property
    def statements(self) -> int:
        """How many statements have gone over its connection with rows."""
        return self._statements.count

    def begin(self) -> None:
        """Open a transaction; ``position`` then says what is delivered."""
        self._step("begin", self._begin)

    def apply(self, cutter: Cutter, located: RowBatch, runs: Matrix, order: Order) -> int:
        """Cut ``located.refs[order]`` into statements and send them; the bytes of their payloads.

        What the target refuses is raised here, or by a later call: an error about data that names
        the first row of it. ``runs`` are those that ``located`` was made of.
        """
        sent = 0

        def send_all() -> None:
            nonlocal sent
            sent = self._send_rows(cutter, located, runs, order)

        self._step("send", send_all)
        return sent

    def settle(self) -> None:
        """Wait until the target has applied all that was sent."""
        self._step("send", self._statements.settle)

    def send(
        self,
        name: str,
        number: int,
        payload: bytes | bytearray | memoryview,
        count: int,
        first_ms: int,
        max_ms: int,
        /,
        *,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Apply the events of one payload; returns when the target has applied them."""
        if (name, number) != (TARGET, self._bucket):
            raise MysqlInternal(f"rows of {name}/{number}", object=str(self._feed))

        def send_and_wait() -> None:
            self._statements.events(payload)
            self._statements.settle()

        self._step("send", send_and_wait)
        if done is not None:
            done()

    def send_small(self, name: str, number: int, value: bytes, at_ms: int, /) -> None:
        """There are no messages without rows."""
        raise MysqlInternal("a message for a database", object=str(self._feed))

    def commit(self, ledger: Mapping[Destination, Position]) -> None:
        """Make the window durable together with the bucket's new position.

        If the connection breaks in COMMIT the ledger is asked: returns if it has the position.
        Raises MysqlCommitLost if not, MysqlCommitUnknown if it cannot be asked.
        """
        self._step("commit", lambda: self._commit(ledger))

    def abort(self) -> None:
        """Give the window up and end the object."""
        if self._state is DeliverState.OPEN and not self._statements.open:
            with suppress(pymysql.err.Error, OSError, EOFError):
                self._session.run("ROLLBACK")
        self.close()

    def close(self) -> None:
        """End the object; an open transaction is rolled back by the server."""
        self._state = DeliverState.BROKEN
        self._session.close()

    def _open(self) -> tuple[SinkSession, Statements]:
        session = SinkSession(self._settings)
        statements = Statements(session)
        try:
            if self._binlog:
                statements.prepare(format_event(session.target))
            # What was sent behind a statement that ended the transaction must not count.
            session.run("SET SESSION autocommit = 0")
            holders.hold(session, self._feed, self._bucket, self._epoch, self._slot)
        except (pymysql.err.Error, OSError, EOFError) as error:
            session.close()
            raise map_error(error, f"BINLOG at {self._settings.address}") from None
        return session, statements

    def _step(self, call: str, action: Callable[[], None]) -> None:
        needed, then = _TRANSITIONS[call]
        if self._state is not needed:
            raise MysqlInternal(f"{call} in state {self._state.value}", object=str(self._feed))
        try:
            action()
        except TidegateError:
            self.abort()
            raise
        except (pymysql.err.Error, OSError, EOFError) as error:
            self.abort()
            raise map_error(error, self._settings.address) from None
        except BaseException:
            self.abort()
            raise
        self._state = then

    def _begin(self) -> None:
        try:
            self._lock()
        except (pymysql.err.Error, OSError, EOFError) as error:
            if not (is_lost(error) and self._used):
                raise
            # An idle connection may have been closed since the last window: nothing is open.
            self._session.close()
            self._session, self._statements = self._open()
            self._lock()
        self._used = True

    def _lock(self) -> None:
        self._recheck.look(self._session)
        self._session.run("BEGIN")
        if not self._settings.exactly_once:
            return
        try:
            self._position = ledger.lock(self._session, self._feed, self._bucket, self._epoch)
        except pymysql.err.Error as error:
            # No such table, which was made before the first row.
            if number_of(error) not in _NO_LEDGER:
                raise
            raise ledger_lost(self._feed, self._settings.address) from None

    def _send_rows(
        self,
        cutter: Cutter,
        located: RowBatch,
        runs: Matrix,
        order: Order,
        *,
        again: bool = False,
    ) -> int:
        """Send rows; without an explanation of errors if they are sent ``again`` to find one."""
        most = self.target.max_packet - LITERAL_SPARE if cutter.sql else self.message_limit(TARGET)
        sent = 0

        def send_again(some: Order) -> None:
            self._send_rows(cutter, located, runs, some, again=True)
            self._statements.settle()

        for batch in cutter.batches(
            located, runs, order, limit=min(_STATEMENT_BYTES, most), max_message=most
        ):
            part = order[batch.first : batch.last]
            refused = (
                None
                if again
                else partial(_refused, send_again, located, part, self._settings.names)
            )
            if cutter.sql:
                wanted = batch.matched if isinstance(batch, SqlBatch) else -1
                answered = None if wanted < 0 else partial(_answered, wanted, located, part)
                self._statements.text(batch.data, answered=answered, refused=refused)
            else:
                self._statements.events(batch.data, refused=refused)
            sent += batch.data.nbytes
        return sent

    def _commit(self, positions: Mapping[Destination, Position]) -> None:
        self._statements.settle()
        position = positions.get((TARGET, self._bucket))
        if len(positions) != (position is not None):
            raise MysqlInternal(f"positions of {sorted(positions)}", object=str(self._feed))
        if position is None:
            self._session.run("COMMIT")
            return
        before = self.position
        if position < before:
            raise MysqlInternal(f"{position} goes back behind {before}", object=str(self._feed))
        if not position.whole() and self._settings.transaction_atomicity is not Atomicity.NONE:
            raise MysqlInternal(f"{position} splits a transaction", object=str(self._feed))
        if self._settings.exactly_once:
            ledger.write(self._session, self._feed, self._bucket, self._epoch, position)
        try:
            self._session.run("COMMIT")
        except (pymysql.err.Error, OSError, EOFError) as error:
            if not (is_lost(error) and self._settings.exactly_once):
                raise
            self._ask(position)
        self._position = position

    def _ask(self, position: Position) -> None:
        """The connection broke in COMMIT: whether it happened, from the ledger.

        The row's lock is waited for, so that a COMMIT that still runs has ended.
        """
        self._session.close()
        object = f"changefeed {self._feed}"
        try:
            self._session, self._statements = self._open()
            self._session.run("BEGIN")
            found = ledger.lock(self._session, self._feed, self._bucket, self._epoch)
            self._session.run("ROLLBACK")
        except (pymysql.err.Error, OSError, EOFError, MysqlUnavailable) as error:
            raise MysqlCommitUnknown(
                f"the connection was lost in COMMIT, and then: {error}",
                object=object,
                hint="delivery recovers by itself from the ledger",
            ) from None
        if found != position:
            raise MysqlCommitLost(
                f"the connection was lost in COMMIT; the ledger stands at {found}",
                object=object,
                hint="delivery recovers by itself from the ledger",
            )


def _refused(
    send_again: Callable[[Order], None],
    located: RowBatch,
    order: Order,
    names: TargetRouter,
    error: pymysql.err.Error,
) -> TidegateError:
    return explain(error, send_again, located, order, names)


def _answered(wanted: int, located: RowBatch, order: Order, found: int) -> None:
    """Raise TargetRowMissing unless the target has found all of the rows."""
    if found == wanted:
        return
    last = located.plans.entries[int(located.refs[order[-1], L.R_PLAN])].table
    rows = f"row {located.key_text(int(order[0]))}"
    if len(order) > 1:
        rows = f"among {len(order)} rows from {rows} on"
    raise TargetRowMissing(
        f"the target has {found} of {wanted} rows that are to be changed",
        object=f"{last.full_name}, {rows}",
        position=located.row_position(int(order[0])),
        hint=DIVERGED,
    )
