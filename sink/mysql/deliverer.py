"""Row apply at a MySQL or MariaDB target, exactly once, from one Spark Python worker."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Protocol

import pymysql

from cdc.base.errors import TidegateError
from cdc.base.position import START, Position
from cdc.binlog.table_map import TableMap
from cdc.kernels import layout as L  # noqa: N812
from cdc.schema.table import Table
from sink.codec.plan import Matrix
from sink.codec.route import Route
from sink.codec.rows import Batch, Located, Order
from sink.contract import Destination
from sink.mysql import ledger
from sink.mysql.blame import explain
from sink.mysql.connection import EVENTS_SQL_MODE, Session, Target
from sink.mysql.errors import (
    DIVERGED,
    MysqlCommitLost,
    MysqlCommitUnknown,
    MysqlInternal,
    MysqlUnavailable,
    TargetRowMissing,
    is_lost,
    map_error,
    number_of,
)
from sink.mysql.events import ApplyPlan, Cutter, apply_plan, format_event
from sink.mysql.placement import TARGET as TARGET
from sink.mysql.recheck import Recheck
from sink.mysql.settings import Apply, Atomicity, MysqlSettings
from sink.mysql.sql_cutter import SqlBatch
from sink.mysql.sql_plan import SQL_MODE

_HEAD, _TAIL = b"BINLOG '", b"'"
# What one statement carries at most: more does not make it faster, and all of it is copied.
_STATEMENT_BYTES = 4 << 20
# COM_QUERY, our own words, and the line ends that the base64 does not have.
_SPARE = 64

Entry = tuple[Table, TableMap, tuple[str, str]]


class AnyCutter(Protocol):
    """Makes payloads of rows: the events of one BINLOG statement each, or one statement of SQL."""

    @property
    def sql(self) -> bool:
        """Whether payloads are SQL text."""

    def batches(
        self, located: Located, runs: Matrix, order: Order, *, limit: int, max_message: int
    ) -> Iterator[Batch]:
        """Payloads of at most ``limit`` bytes, or of one row that takes up to ``max_message``."""


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


# No right to do this, or no such statement.
_DENIED = frozenset((1044, 1064, 1142, 1227, 1235, 1295))


def may_binlog(session: Session) -> bool:
    """Whether the session takes row events; it is then told how to read them.

    Raises PyMySQL's errors.
    """
    if session.settings.apply is Apply.SQL or "tidb" in session.target.version.lower():
        # TiDB passes over BINLOG without a word.
        return False
    try:
        announce(session)
    except pymysql.err.Error as error:
        if number_of(error) not in _DENIED:
            raise
        return False
    return True


def announce(session: Session) -> None:
    """Tell the session how our events are to be read; needs the right to BINLOG.

    Raises PyMySQL's errors.
    """
    event = format_event(session.target)
    session.run(_HEAD + binascii.b2a_base64(event, newline=False) + _TAIL)
    if not session.target.mariadb:
        # The event leaves it at NOT_YET_DETERMINED, with which nothing can be written.
        session.run("SET SESSION gtid_next = 'AUTOMATIC'")


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
        feed: str,
        epoch: int,
        bucket: int = 0,
        *,
        recheck: Recheck | None = None,
        binlog: bool = True,
    ) -> None:
        self._settings = settings
        self._feed = feed
        self._epoch = epoch
        self._bucket = bucket
        self._state = DeliverState.READY
        self._position: Position | None = None
        self._used = False
        self._recheck = recheck or Recheck()
        self._binlog = binlog
        # The session that is set up for SQL text, if it is.
        self._text: Session | None = None
        self._session = self._open()

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

    def cutter(self, plan: ApplyPlan) -> Cutter:
        """Makes payloads for ``send``."""
        return Cutter(plan, self._settings, self.target)

    def message_limit(self, name: str) -> int:
        """Largest payload of one row: what fits, as base64, into one packet of the target."""
        return (self.target.max_packet - len(_HEAD) - len(_TAIL) - _SPARE) // 4 * 3

    def batch_limit(self, name: str) -> int:
        """Largest payload of one ``send``, unless it is a single row."""
        return min(_STATEMENT_BYTES, self.message_limit(name))

    def begin(self) -> None:
        """Open a transaction; ``position`` then says what is delivered."""
        self._step("begin", self._begin)

    def apply(self, cutter: AnyCutter, located: Located, runs: Matrix, order: Order) -> int:
        """Cut ``located.refs[order]`` into statements and apply them; the bytes of their payloads.

        The same as ``send`` of each of the cutter's payloads, but an error about data names the
        first row that the target refuses. ``runs`` are those that ``located`` was made of.
        """
        sent = 0
        most = self.target.max_packet - _SPARE if cutter.sql else self.message_limit(TARGET)

        def apply_all(some: Order) -> None:
            nonlocal sent
            for batch in cutter.batches(
                located, runs, some, limit=min(_STATEMENT_BYTES, most), max_message=most
            ):
                try:
                    self._run(cutter.sql, batch, located, some)
                except pymysql.err.Error as error:
                    part = some[batch.first : batch.last]
                    if some is not order:
                        raise
                    raise explain(error, apply_all, located, part) from None
                sent += batch.data.nbytes

        self._step("send", lambda: apply_all(order))
        return sent

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
            raise MysqlInternal(f"rows of {name}/{number}", object=self._feed)
        self._step("send", lambda: self._apply(payload))
        if done is not None:
            done()

    def send_small(self, name: str, number: int, value: bytes, at_ms: int, /) -> None:
        """There are no messages without rows."""
        raise MysqlInternal("a message for a database", object=self._feed)

    def commit(self, ledger: Mapping[Destination, Position]) -> None:
        """Make the window durable together with the bucket's new position.

        If the connection breaks in COMMIT the ledger is asked: returns if it has the position.
        Raises MysqlCommitLost if not, MysqlCommitUnknown if it cannot be asked.
        """
        self._step("commit", lambda: self._commit(ledger))

    def abort(self) -> None:
        """Give the window up and end the object."""
        if self._state is DeliverState.OPEN:
            with suppress(pymysql.err.Error, OSError, EOFError):
                self._session.run("ROLLBACK")
        self.close()

    def close(self) -> None:
        """End the object; an open transaction is rolled back by the server."""
        self._state = DeliverState.BROKEN
        self._session.close()

    def _open(self) -> Session:
        session = Session(self._settings)
        try:
            if self._binlog:
                announce(session)
        except (pymysql.err.Error, OSError, EOFError) as error:
            session.close()
            raise map_error(error, f"BINLOG at {self._settings.address}") from None
        return session

    def _step(self, call: str, action: Callable[[], None]) -> None:
        needed, then = _TRANSITIONS[call]
        if self._state is not needed:
            raise MysqlInternal(f"{call} in state {self._state.value}", object=self._feed)
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
            self._session = self._open()
            self._lock()
        self._used = True

    def _lock(self) -> None:
        self._recheck.look(self._session)
        self._session.run("BEGIN")
        self._position = ledger.lock(self._session, self._feed, self._bucket, self._epoch)

    def _apply(self, payload: bytes | bytearray | memoryview) -> None:
        text = binascii.b2a_base64(payload, newline=False)
        statement = bytearray(_HEAD)
        statement += text
        statement += _TAIL
        self._session.run(statement)

    def _run(self, sql: bool, batch: Batch, located: Located, order: Order) -> None:
        self._use(sql)
        if not sql:
            self._apply(batch.data)
            return
        found = self._session.run(bytes(batch.data))
        wanted = batch.matched if isinstance(batch, SqlBatch) else -1
        if wanted in (-1, found):
            return
        part = order[batch.first : batch.last]
        last = located.plans.entries[int(located.refs[part[-1], L.R_PLAN])].table
        rows = f"row {located.key_text(int(part[0]))}"
        if len(part) > 1:
            rows = f"among {len(part)} rows from {rows} on"
        raise TargetRowMissing(
            f"the target has {found} of {wanted} rows that are to be changed",
            object=f"{last.full_name}, {rows}",
            position=f"{located.name}:{int(located.refs[part[0], L.R_END])}",
            hint=DIVERGED,
        )

    def _use(self, sql: bool) -> None:
        """Set the session up for text or for events."""
        if sql and self._text is not self._session:
            self._session.run(f"SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00'")
            self._text = self._session
        elif not sql and self._text is self._session:
            self._session.run(f"SET SESSION sql_mode = '{EVENTS_SQL_MODE}'")
            self._text = None

    def _commit(self, positions: Mapping[Destination, Position]) -> None:
        position = positions.get((TARGET, self._bucket))
        if len(positions) != (position is not None):
            raise MysqlInternal(f"positions of {sorted(positions)}", object=self._feed)
        if position is None:
            self._session.run("COMMIT")
            return
        before = self.position
        if position < before:
            raise MysqlInternal(f"{position} goes back behind {before}", object=self._feed)
        if not position.whole() and self._settings.transaction_atomicity is not Atomicity.NONE:
            raise MysqlInternal(f"{position} splits a transaction", object=self._feed)
        ledger.write(self._session, self._feed, self._bucket, self._epoch, position)
        try:
            self._session.run("COMMIT")
        except (pymysql.err.Error, OSError, EOFError) as error:
            if not is_lost(error):
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
            self._session = self._open()
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
