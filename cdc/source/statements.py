"""Statements of a change log: each DDL with all that decides what it means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from cdc.base.errors import DefiniteError, ErrorKind, TidegateError, from_dict
from cdc.base.ts import Ts
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader
from cdc.binlog.query import Query, StatusVariables
from cdc.changelog.errors import LogCollected
from cdc.changelog.reader import ChangeLog
from cdc.schema.ddl import read_ddl
from cdc.schema.definition import TableDefinition
from cdc.schema.events import session_of_event, statement_text
from cdc.schema.session import Session
from cdc.schema.snapshot import Schema
from cdc.schema.statement import DdlStatement
from cdc.schema.table import Table
from cdc.schema.table_copy import TableCopy
from cdc.schema.tokens import DDLNotUnderstood
from cdc.schema.versions import Versions
from cdc.source.known_snapshots import KnownSnapshot, snapshot_at

_SHOWN_SQL = 200
_ATTEMPTS = 3


@dataclass(frozen=True)
class LoggedDdl:
    """A DDL of the change log: what the upstream executed at ``ts``.

    ``time_s`` is the event's time, ``event`` all of it. If it cannot be read, ``error`` says why;
    ``statement`` is then None, unless it is known at least which tables it changes.
    """

    ts: Ts
    sql: str
    session: Session
    status: StatusVariables
    time_s: int
    statement: DdlStatement | None
    error: DefiniteError | None = None
    event: bytes = b""


def read_logged(ts: Ts, event: bytes, base: Session) -> LoggedDdl:
    """The statement of a QUERY event; ``base`` is the server's session of the schema snapshot."""
    time_s = EventHeader.parse(event).timestamp
    session, status = base, StatusVariables()
    sql = event[HEADER_LENGTH:].decode("utf-8", "replace")[-_SHOWN_SQL:]
    try:
        query = Query.parse(event[HEADER_LENGTH : len(event) - CHECKSUM_LENGTH])
        status = query.status()
        session = session_of_event(base, query.schema, status, query.error_code)
        sql = statement_text(query.raw_sql, session)
        statement = read_ddl(sql, session)
        return LoggedDdl(ts, sql, session, status, time_s, statement, event=event)
    except TidegateError as e:
        if e.kind is ErrorKind.TRANSIENT:
            raise
        error = e if isinstance(e, DefiniteError) else DDLNotUnderstood(e.message, object=e.object)
    error.position = error.position or f"ts {ts}"
    return LoggedDdl(ts, sql, session, status, time_s, None, error)


class History:
    """The schema of an upstream by ts: a snapshot at or below ``start_ts``, and what followed.

    It is known for rows above ``start_ts``, and :meth:`refresh` takes up what the log has resolved
    since. ``snapshot``: the one to begin with, if it is read already. ``unkeyed``: since when
    tables have no key that had one, by the name under which they are looked up. One thread at a
    time. Raises LogCollected.
    """

    def __init__(
        self, log: ChangeLog, start_ts: Ts, snapshot: dict[str, Any] | None = None
    ) -> None:
        self._log = log
        for left in range(_ATTEMPTS - 1, -1, -1):
            self._begin(snapshot_at(log, start_ts) if snapshot is None else KnownSnapshot(snapshot))
            try:
                self.refresh(start_ts)
            except LogCollected:
                # A newer snapshot has come, and statements below it have gone.
                if not left or snapshot is not None:
                    raise
            else:
                break
        self.versions.collect(start_ts)

    def _begin(self, first: KnownSnapshot) -> None:
        # Held, so that others who begin with it share it.
        self._first = first
        self.base, self._seen = first.session, first.ts
        lost = [(_name(n), ts, _definite(e)) for n, ts, e in first.lost]
        self.versions = Versions(first.catalog, self._seen, lost)
        self.unkeyed: dict[tuple[str, str], Ts] = {_name(n): ts for n, ts in first.unkeyed}

    @property
    def seen_ts(self) -> Ts:
        """Up to where statements have been taken up."""
        return self._seen

    def refresh(self, upto: Ts) -> list[LoggedDdl]:
        """Follow all statements at or below ``upto`` that were not seen; they are returned."""
        upto = min(upto, self._log.state.resolved_ts)
        if upto <= self._seen:
            return []
        found = []
        for ts, event in self._log.statements(self._seen, upto):
            found.append(self._follow(read_logged(ts, event, self.base)))
        self._seen = upto
        return found

    def follow(self, ts: Ts, event: bytes) -> LoggedDdl:
        """Follow a statement that was just written to the log, at ``ts`` above all before."""
        self._seen = ts
        return self._follow(read_logged(ts, event, self.base))

    def schema_at(self, ts: Ts) -> SchemaAt:
        """The schema for rows at ``ts``; all statements up to it must have been taken up."""
        return SchemaAt(self, ts)

    def _follow(self, s: LoggedDdl) -> LoggedDdl:
        if s.error is not None:
            self.versions.lose(s.ts, s.statement, s.error)
            return s
        # What has no error was read.
        assert s.statement is not None
        error = self.versions.advance(s.ts, s.statement)
        for name in s.statement.tables:
            self._note_key(name, s.ts)
        if error is None:
            return s
        error.position = error.position or f"ts {s.ts}"
        return replace(s, error=error)

    def _note_key(self, name: tuple[str, str], ts: Ts) -> None:
        versions, key = self.versions, self.versions.key(name)
        with suppress(DefiniteError):
            table, before = versions.table(*name, ts), versions.before(ts).table(*name)
            if table is None or table.handle_key:
                self.unkeyed.pop(key, None)
            elif before is not None and before.handle_key:
                self.unkeyed[key] = ts


def _name(listed: list[str]) -> tuple[str, str]:
    return listed[0], listed[1]


def _definite(fields: dict[str, str]) -> DefiniteError:
    error = from_dict(fields)
    return error if isinstance(error, DefiniteError) else DDLNotUnderstood(error.message)


class SchemaAt(Schema):
    """The tables of a history at one ts; one that is lost raises when it is asked for."""

    def __init__(self, history: History, ts: Ts) -> None:
        self.ts = ts
        self.session = history.base
        self._versions = history.versions
        self._catalog = history.versions.at(ts)

    def __getitem__(self, key: tuple[str, str]) -> Table:
        table = self._versions.table(*key, self.ts)
        if table is None:
            raise KeyError(key)
        return table

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._catalog)

    def __len__(self) -> int:
        return len(self._catalog)

    def tables_of(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        return self._catalog.tables_of(wanted)

    def text(self, key: tuple[str, str]) -> str:
        return self._versions.text(*key, self.ts)

    def definition(self, key: tuple[str, str]) -> TableDefinition:
        table, known = self[key], self._catalog.definition(*key)
        # It is there, or asking for the table has raised.
        assert known is not None
        return replace(known, table=table)

    def copy_of(self, schema: str, name: str) -> TableCopy | None:
        return self._catalog.copy_of(schema, name)
