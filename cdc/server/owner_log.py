"""Change logs as the owner reads them: resolved ts, and DDLs by what they touch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH
from cdc.binlog.query import Query
from cdc.changelog.reader import ChangeLog
from cdc.coord.messages import ErrorInfo, UpstreamInfo
from cdc.schema.ddl import touched
from cdc.schema.events import session_of_event, statement_text
from cdc.schema.snapshot import Schema, load
from owner.ddl import Ddl, TableName

_SHOWN_SQL = 200


class OwnerLogs:
    """One :class:`OwnerLog` per upstream, opened on first use.

    ``folder`` names the folder of an upstream's log; ``info`` raises for an unknown upstream.
    """

    def __init__(self, folder: Callable[[str], Path], info: Callable[[str], UpstreamInfo]) -> None:
        self._folder = folder
        self._info = info
        self._guard = threading.Lock()
        self._open: dict[str, tuple[int, OwnerLog]] = {}

    def log(self, upstream: str) -> OwnerLog:
        """The log of an upstream; a new one if the upstream was registered anew."""
        created = self._info(upstream).create_time_ms
        with self._guard:
            known = self._open.get(upstream)
            if known is None or known[0] != created:
                if known is not None:
                    known[1].close()
                known = (created, OwnerLog(ChangeLog.open(self._folder(upstream))))
                self._open[upstream] = known
            return known[1]


class OwnerLog:
    """:class:`owner.logs.UpstreamLog` over a change log."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._schemas: dict[Ts, Schema] = {}

    def close(self) -> None:
        """Give the log back."""
        self._log.close()

    def resolved_ts(self) -> Ts:
        """Nothing at or below it will still arrive."""
        return self._log.refresh().resolved_ts

    def check_kept(self, ts: Ts) -> None:
        """Raises LogCollected if the log no longer holds all that lies above ``ts``."""
        self._log.refresh()
        self._log.check_kept(Position(ts))

    def wait(self, above: Ts, timeout_s: float) -> Ts:
        """The resolved ts, as soon as it is greater than ``above`` or the time is over."""
        return self._log.wait(above, timeout_s).resolved_ts

    def ddls(self, above: Ts, upto: Ts) -> tuple[Ddl, ...]:
        """DDLs with ``above < ts <= upto``; one that is not understood carries its error."""
        runs = self._log.ddls(above, upto)
        found = []
        for i in range(len(runs)):
            event = self._log.event(runs.slice(i, i + 1))
            found.append(self._ddl(int(runs.commit_ts[i]), event))
        return tuple(found)

    def tables(self, at: Ts) -> tuple[TableName, ...]:
        """Tables of the schema snapshot that holds at ``at``."""
        return tuple(self._schema(at))

    def _ddl(self, ts: Ts, event: bytes) -> Ddl:
        try:
            query = Query.parse(event[HEADER_LENGTH : len(event) - CHECKSUM_LENGTH])
            before = self._schema(ts).session
            session = session_of_event(before, query.schema, query.status(), query.error_code)
            sql = statement_text(query.raw_sql, session)
            return Ddl(ts, sql, touched(sql, session))
        except TidegateError as e:
            if e.kind is ErrorKind.TRANSIENT:
                raise
            error = e
        sql = event[HEADER_LENGTH:].decode("utf-8", "replace")[-_SHOWN_SQL:]
        info = ErrorInfo.model_validate(error.to_dict())
        if not info.position:
            info = info.model_copy(update={"position": f"ts {ts}"})
        return Ddl(ts, sql, None, info)

    def _schema(self, at: Ts) -> Schema:
        usable = [ts for ts in self._log.snapshots() if ts <= at]
        key = usable[-1] if usable else 0
        if key not in self._schemas:
            self._schemas[key] = load(self._log.snapshot_at(at))
        return self._schemas[key]
