"""Carries out schema changes at a target (``sink.schema_change.SchemaChanger``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

import pymysql

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.schema.shown import shown
from sink.mysql import ledger as rows
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.ddl import ledger
from sink.mysql.ddl.carrying import Carrying, Owner, object_of
from sink.mysql.ddl.errors import DDLNotTranslatable, DDLStillRunning, ddl_error
from sink.mysql.ddl.execution import Execution
from sink.mysql.ddl.fresh import Fresh
from sink.mysql.ddl.rewrite import Rewritten, Route, identity, rewrite
from sink.mysql.ddl.server import TargetServer, ask
from sink.mysql.ddl.shown import databases
from sink.mysql.ddl.witness import remove_markers
from sink.mysql.settings import MysqlSettings
from sink.mysql.target import references
from sink.schema_change import Recorded, SchemaChange, proven

T = TypeVar("T")
# One round of waiting for a statement of an earlier owner.
_HOLD_S = 2


class MysqlChanger:
    """Schema changes of one changefeed in one epoch.

    ``route`` gives a table of the upstream its name at the target.
    """

    def __init__(
        self, settings: MysqlSettings, feed: FeedId, epoch: int, route: Route = identity
    ) -> None:
        self._settings = settings
        self._feed = feed
        self._epoch = epoch
        self._route = route
        self._guard = threading.Lock()
        self._server: TargetServer | None = None
        self._ties: dict[str, list[tuple[str, str]]] = {}
        self._closed = threading.Event()

    def take_over(self) -> Mapping[Ts, Recorded]:
        """Fence changers of older epochs; what the ledger says, by ts."""
        with self._session() as session:
            ledger.create(session)
            records = ledger.take_over(session, self._feed, self._epoch)
            for ts, record in records.items():
                if record.state is Recorded.EXECUTING:
                    self._end_idle(session, ts)
            return {ts: record.state for ts, record in records.items()}

    def ties(self) -> Iterable[tuple[str, str]]:
        """Child and parent of every foreign key of the target.

        Read anew only of databases in which a change has run since the last call: asking a server
        with many tables takes long.
        """
        with self._session() as session, mapped(f"target {self._settings.address}"):
            there = databases(session)
            with self._guard:
                known = {s: pairs for s, pairs in self._ties.items() if s in there}
            for schema in there - known.keys():
                known[schema] = references(session, (schema,))
            with self._guard:
                self._ties = known
            return [pair for schema in sorted(known) for pair in known[schema]]

    def execute(self, change: SchemaChange) -> None:
        """Carry the change out exactly once; see ``sink.schema_change``."""
        fresh = Fresh(self._settings)
        try:
            if not self._ended(fresh, change):
                self._execute(fresh, change)
        finally:
            fresh.close()

    def _ended(self, fresh: Fresh, change: SchemaChange) -> bool:
        found = ledger.record(fresh.get(), self._feed, self._epoch, change.ts)
        return found is not None and found.state is not Recorded.EXECUTING

    def _execute(self, fresh: Fresh, change: SchemaChange) -> None:
        rewritten = self._errors(change, lambda: self._rewritten(fresh.get(), change))
        execution = Execution(self._settings)
        try:
            self._hold(fresh, execution, change)
            # Who had the lock may have ended it meanwhile.
            if self._ended(fresh, change):
                return
            found = ledger.record(fresh.get(), self._feed, self._epoch, change.ts)
            if found is None and proven(change, self._delivered(fresh.get())):
                ledger.end(fresh.get(), self._feed, self._epoch, change.ts, Recorded.DONE)
                return
            owner = self._owner(fresh.get())
            carrying = Carrying(owner, fresh, execution, change, rewritten, found)
            self._errors(change, carrying.run)
            self._forget_ties(change)
        finally:
            execution.close()

    def _delivered(self, session: SinkSession) -> Iterable[Position]:
        """Where the buckets stand; rows of this epoch cannot be behind a change that is to run."""
        if not self._settings.exactly_once:
            return ()
        return rows.delivered(session, self._feed).values()

    def _forget_ties(self, change: SchemaChange) -> None:
        schemas = {self._route(*name)[0] for name in change.tables}
        schemas |= {self._route(schema, "")[0] for schema in change.schemas}
        with self._guard:
            for schema in schemas:
                self._ties.pop(schema, None)

    def skip(self, change: SchemaChange) -> None:
        """Record that it is left out."""
        with self._session() as session:
            state = Recorded.SKIPPED
            text = shown(change.sql, change.session)
            ledger.end(session, self._feed, self._epoch, change.ts, state, text)

    def forget_below(self, ts: Ts) -> None:
        """Remove what has ended at or below ``ts``."""
        with self._session() as session:
            ledger.forget_below(session, self._feed, self._epoch, ts)
            with mapped(f"target {self._settings.address}"):
                remove_markers(session, self._feed, ts)

    def close(self) -> None:
        """Let everybody who waits go; a statement that runs is left to its server."""
        self._closed.set()

    @contextmanager
    def _session(self) -> Iterator[SinkSession]:
        session = SinkSession(self._settings)
        try:
            yield session
        finally:
            session.close()

    def _known(self, session: SinkSession) -> TargetServer:
        with self._guard:
            if self._server is None:
                self._server = ask(session)
            return self._server

    def _owner(self, session: SinkSession) -> Owner:
        server = self._known(session)
        return Owner(self._feed, self._epoch, server, self._route, self._alive, self._closed.is_set)

    def _rewritten(self, session: SinkSession, change: SchemaChange) -> Rewritten:
        server = self._known(session)
        try:
            return rewrite(change, server, self._route)
        except (LookupError, ValueError) as error:
            # A text that our rewriting did not foresee; the upstream's server took it.
            raise DDLNotTranslatable(
                f"the statement cannot be rewritten ({error!r}): "
                f"{shown(change.sql, change.session)}",
                hint="report it with both servers' versions; make the change at the target, and"
                " leave the statement out: `cdc cli ddl skip`",
            ) from error

    # The change's lock: who has it knows that nobody runs the statement.

    def _hold(self, fresh: Fresh, execution: Execution, change: SchemaChange) -> None:
        lock = ledger.lock_name(self._feed, change.ts)
        with mapped(f"target {self._settings.address}"):
            while not execution.hold(lock, _HOLD_S):
                if self._closed.is_set():
                    raise DDLStillRunning(
                        "a statement of an earlier owner runs",
                        object=object_of(change),
                        position=f"ts {change.ts}",
                        hint="it is waited for",
                    )
                self._end_idle(fresh.get(), change.ts)

    def _end_idle(self, session: SinkSession, ts: Ts) -> None:
        """End a connection that holds the change's lock and runs nothing: it may never wake up."""
        lock = ledger.lock_name(self._feed, ts)
        with mapped(f"target {self._settings.address}"):
            holder = session.rows("SELECT IS_USED_LOCK(%s) AS i", lock)[0]["i"]
            if holder is None or not _is_idle(session, int(holder)):
                return
            with suppress(pymysql.err.Error):
                # It may have ended by itself.
                session.run(f"KILL {int(holder)}")

    def _alive(self, connection: int) -> bool:
        try:
            with self._session() as session:
                return _command(session, connection) is not None
        except (TidegateError, pymysql.err.Error, OSError):
            # The target cannot be asked; the socket itself will say if it is gone.
            return True

    def _errors(self, change: SchemaChange, call: Callable[[], T]) -> T:
        try:
            return call()
        except (pymysql.err.Error, OSError, EOFError) as error:
            at = f"ts {change.ts}"
            text = shown(change.sql, change.session)
            raise ddl_error(error, object_of(change), at, text) from None
        except TidegateError as error:
            error.object = error.object or object_of(change)
            error.position = error.position or f"ts {change.ts}"
            raise


def _command(session: SinkSession, connection: int) -> str | None:
    """What a connection of our user does at the target, None if it has ended."""
    found = session.rows(
        "SELECT command AS c FROM information_schema.processlist WHERE id = %s", connection
    )
    return str(found[0]["c"]) if found else None


def _is_idle(session: SinkSession, connection: int) -> bool:
    return _command(session, connection) == "Sleep"
