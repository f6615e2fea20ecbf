"""Statements of a change log: each DDL with all that decides what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cdc.base.errors import DefiniteError, ErrorKind, TidegateError
from cdc.base.ts import Ts
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader
from cdc.binlog.query import Query, StatusVariables
from cdc.changelog.reader import ChangeLog
from cdc.schema.ddl import Touched, touched
from cdc.schema.events import session_of_event, statement_text
from cdc.schema.session import Session
from cdc.schema.snapshot import Schema, catalog, session_of
from cdc.schema.table import Table
from cdc.schema.tokens import DDLNotUnderstood
from cdc.schema.versions import Versions

_SHOWN_SQL = 200


@dataclass(frozen=True)
class Statement:
    """A statement as the upstream executed it at ``ts``.

    ``time_s`` is the event's time. If it cannot be read, ``error`` says why; ``touched`` is then
    None, unless it is known at least which tables it changes.
    """

    ts: Ts
    sql: str
    session: Session
    status: StatusVariables
    time_s: int
    touched: Touched | None
    error: DefiniteError | None = None


def read_statement(ts: Ts, event: bytes, base: Session) -> Statement:
    """The statement of a QUERY event; ``base`` is the server's session of the schema snapshot."""
    time_s = EventHeader.parse(event).timestamp
    session, status = base, StatusVariables()
    sql = event[HEADER_LENGTH:].decode("utf-8", "replace")[-_SHOWN_SQL:]
    try:
        query = Query.parse(event[HEADER_LENGTH : len(event) - CHECKSUM_LENGTH])
        status = query.status()
        session = session_of_event(base, query.schema, status, query.error_code)
        sql = statement_text(query.raw_sql, session)
        return Statement(ts, sql, session, status, time_s, touched(sql, session))
    except TidegateError as e:
        if e.kind is ErrorKind.TRANSIENT:
            raise
        error = e if isinstance(e, DefiniteError) else DDLNotUnderstood(e.message, object=e.object)
    error.position = error.position or f"ts {ts}"
    return Statement(ts, sql, session, status, time_s, None, error)


class History:
    """The schema of an upstream by ts: its log's snapshot at ``start_ts`` and what followed.

    :meth:`refresh` takes up what the log has resolved since. One thread at a time.
    """

    def __init__(self, log: ChangeLog, start_ts: Ts) -> None:
        snapshot = log.snapshot_at(start_ts)
        self._log = log
        self.base = session_of(snapshot["server"])
        self._seen = int(snapshot["ts"])
        self.versions = Versions(catalog(snapshot), self._seen)

    @property
    def seen_ts(self) -> Ts:
        """Up to where statements have been taken up."""
        return self._seen

    def refresh(self, upto: Ts) -> list[Statement]:
        """Follow all statements at or below ``upto`` that were not seen; they are returned."""
        upto = min(upto, self._log.state.resolved_ts)
        if upto <= self._seen:
            return []
        found = []
        for ts, event in self._log.statements(self._seen, upto):
            statement = read_statement(ts, event, self.base)
            found.append(self._follow(statement))
        self._seen = upto
        return found

    def schema_at(self, ts: Ts) -> SchemaAt:
        """The schema for rows at ``ts``; all statements up to it must have been taken up."""
        return SchemaAt(self, ts)

    def _follow(self, s: Statement) -> Statement:
        if s.error is not None:
            self.versions.lose(s.ts, s.touched, s.error)
            return s
        error = self.versions.advance(s.ts, s.sql, s.session, s.touched)
        if error is None:
            return s
        error.position = error.position or f"ts {s.ts}"
        return replace(s, error=error)


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
