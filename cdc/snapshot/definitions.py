"""Whether tables stayed as they were between two ts, by the statements of the log."""

from __future__ import annotations

from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.schema.catalog import Catalog
from cdc.source.statements import History, LoggedDdl


class Definitions:
    """The schema of a log above ``ts``. One thread at a time. Raises LogCollected."""

    def __init__(self, log: ChangeLog, ts: Ts) -> None:
        self._history = History(log, ts)
        self._seen: list[LoggedDdl] = []

    def at(self, ts: Ts) -> Catalog:
        """The schema at a ts that the log has resolved."""
        self._follow(ts)
        return self._history.versions.at(ts)

    def same(self, name: str, lo: Ts, hi: Ts) -> bool:
        """Whether no statement with ``lo < ts <= hi`` is about the table ``schema.table``.

        One that empties it counts, and one that cannot be read is about all tables.
        """
        self._follow(hi)
        return not any(lo < ddl.ts <= hi and _is_about(ddl, name.lower()) for ddl in self._seen)

    def _follow(self, ts: Ts) -> None:
        self._seen += self._history.refresh(ts)


def _is_about(ddl: LoggedDdl, name: str) -> bool:
    statement = ddl.statement
    if statement is None:
        return True
    schema = name.partition(".")[0]
    about = {f"{s}.{t}".lower() for s, t in statement.tables}
    return name in about or schema in {s.lower() for s in statement.schemas}
