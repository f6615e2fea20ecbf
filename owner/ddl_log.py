"""Change logs as the owner reads them: resolved ts, and DDLs with the schema on both sides."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cdc.base.position import Position, TransactionName
from cdc.base.ts import MAX_TS, Ts
from cdc.changelog.errors import LogCorrupt, LogMissing, LogReplaced
from cdc.changelog.reader import ChangeLog
from cdc.coord.messages import ErrorInfo, UpstreamInfo
from cdc.schema.catalog import Catalog
from cdc.schema.copies import copies_of, of_tool
from cdc.schema.statement import Verb
from cdc.source.statements import History, LoggedDdl
from owner.ddl import Ddl
from sink.schema_change import Logged, SchemaChange


class DdlLogs:
    """One :class:`DdlLog` per upstream, opened on first use.

    ``folder`` names the folder of an upstream's log; ``info`` raises for an unknown upstream.
    """

    def __init__(self, folder: Callable[[str], Path], info: Callable[[str], UpstreamInfo]) -> None:
        self._folder = folder
        self._info = info
        self._guard = threading.Lock()
        self._open: dict[str, tuple[int, DdlLog]] = {}

    def log(self, upstream: str) -> DdlLog:
        """The log of an upstream; opened anew if that was registered, or its log made, anew."""
        created = self._info(upstream).create_time_ms
        with self._guard:
            known = self._open.get(upstream)
            if known is None or known[0] != created or known[1].replaced():
                if known is not None:
                    known[1].close()
                known = (created, DdlLog(ChangeLog.open(self._folder(upstream))))
                self._open[upstream] = known
            return known[1]

    def forget(self, upstream: str) -> None:
        """Close the log of an upstream, if it is open."""
        with self._guard:
            known = self._open.pop(upstream, None)
        if known is not None:
            known[1].close()

    def check_kept(self, upstream: str, ts: Ts) -> None:
        """Raises LogCollected if an upstream's log does not hold all that lies above ``ts``."""
        self.log(upstream).check_kept(ts)

    def transaction_at(self, upstream: str, ts: Ts) -> TransactionName | None:
        """What the upstream calls the last transaction at or below ``ts``, if there is one."""
        return self.log(upstream).transaction_at(ts)


class DdlLog:
    """:class:`owner.logs.UpstreamLog` over a change log.

    DDLs are read once for all changefeeds of the upstream, in order, each with the catalogs before
    and after it: only the newest catalog is a whole one of its own, the others share with it.
    """

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._guard = threading.Lock()
        self._history: History | None = None
        self._from: Ts = 0
        self._ddls: list[Ddl] = []

    def close(self) -> None:
        """Give the log back."""
        self._log.close()

    def replaced(self) -> bool:
        """Whether another log lies in its place, so that this one cannot be read any more."""
        try:
            self._log.refresh()
        except (LogMissing, LogCorrupt, LogReplaced) as error:
            # Whoever reads it says what else is wrong.
            return isinstance(error, LogReplaced)
        return False

    def resolved_ts(self) -> Ts:
        """Nothing at or below it will still arrive."""
        return self._log.refresh().resolved_ts

    def check_kept(self, ts: Ts) -> None:
        """Raises LogCollected if the log no longer holds all that lies above ``ts``."""
        self._log.refresh()
        self._log.check_kept(Position(ts))

    def transaction_at(self, ts: Ts) -> TransactionName | None:
        """What the upstream calls the last transaction at or below ``ts``, if there is one."""
        self._log.refresh()
        return self._log.transaction_at(ts)

    def wait(self, above: Ts, timeout_s: float) -> Ts:
        """The resolved ts, as soon as it is greater than ``above`` or the time is over."""
        return self._log.wait(above, timeout_s).resolved_ts

    def has_ddl(self, above: Ts, upto: Ts) -> bool:
        """Whether there is a DDL with ``above < ts <= upto``, understood or not."""
        return len(self._log.ddls(max(above, self._log.state.first_ts), upto)) > 0

    def ddls(self, above: Ts, upto: Ts) -> tuple[Ddl, ...]:
        """DDLs with ``above < ts <= upto``; one that is not understood carries its error."""
        with self._guard:
            history = self._history
            if history is None or above < self._from or self._left_behind(history):
                history, self._from, self._ddls = History(self._log, above), above, []
                self._history = history
            for statement in history.refresh(upto):
                if statement.ts > self._from:
                    name = self._log.transaction_at(statement.ts)
                    known = name is not None and name.ts == statement.ts
                    form = self._log.format_at(statement.ts)
                    ddl = _ddl(statement, history, name if known else None, form)
                    self._ddls.append(replace(ddl, slipped=self._slipped(ddl)))
            first = bisect_right(self._ddls, above, key=lambda d: d.ts)
            last = bisect_right(self._ddls, upto, key=lambda d: d.ts)
            return tuple(self._ddls[first:last])

    def _slipped(self, swap: Ddl) -> int:
        """Rows that came between gh-ost's DROP of its sentry and its swap: they are lost to it.

        A write that waits for the tool's lock can be faster than the RENAME, and is then in the
        old table alone.
        """
        before = self._ddls[-1] if self._ddls else None
        if before is None or before.statement is None or before.statement.verb is not Verb.DROP:
            return 0
        if swap.change is None or swap.statement is None or not of_tool(swap.sql):
            return 0
        schemas, dropped = swap.change.before, before.statement.tables
        for base, old in swap.statement.renames:
            if old in dropped and next(copies_of(schemas, base), None) is not None:
                name = schemas.key(base[0]), schemas.key(base[1])
                entries = self._log.tables.items()
                ids = [
                    i for i, e in entries if (schemas.key(e.schema), schemas.key(e.name)) == name
                ]
                runs = self._log.runs(Position(before.ts), Position(swap.ts), tables=ids)
                return int(runs.rows.sum())
        return 0

    def schemas(self) -> Catalog | None:
        """The schema behind the last of the DDLs that were asked for, if any were."""
        with self._guard:
            history = self._history
            return None if history is None else history.versions.at(MAX_TS)

    def _left_behind(self, history: History) -> bool:
        """Whether statements that it has not seen may have gone, while nobody asked for any."""
        return history.seen_ts < self._log.state.first_ts

    def forget_below(self, ts: Ts) -> None:
        """No changefeed will ask for DDLs at or below ``ts``."""
        with self._guard:
            if self._history is not None and ts > self._from:
                self._from = ts
                del self._ddls[: bisect_right(self._ddls, ts, key=lambda d: d.ts)]
                self._history.versions.collect(ts)
                self._log.forget_below(ts)


def _ddl(s: LoggedDdl, history: History, name: TransactionName | None, form: bytes) -> Ddl:
    change = None
    if s.statement is not None:
        change = SchemaChange(
            ts=s.ts,
            sql=s.sql,
            kind=s.statement.kind,
            tables=s.statement.tables,
            schemas=s.statement.schemas,
            replicated=s.statement.tables,
            session=s.session,
            status=s.status,
            time_s=s.time_s,
            before=history.versions.before(s.ts),
            after=history.versions.at(s.ts),
            logged=Logged(s.sql, s.event, form, name),
        )
    error = None if s.error is None else ErrorInfo.model_validate(s.error.to_dict())
    return Ddl(s.ts, s.sql, s.statement, error, change, name)
