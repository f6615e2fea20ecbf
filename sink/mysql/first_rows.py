"""Rows that the tables of a target have already, before those that a changefeed begins with."""

from __future__ import annotations

from collections.abc import Iterable

from cdc.base.ids import FeedId
from cdc.coord.snapshot_config import OnExisting
from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from sink.errors import SinkOptionNotSupported
from sink.mysql import ledger
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.ddl.ledger import lock_name
from sink.mysql.errors import MysqlLockWait, TargetNotEmpty
from sink.mysql.settings import MysqlSettings
from sink.schema_change import TableName

# More are not counted.
_COUNTED = 1000
_LOCK_WAIT_S = 30


class MysqlFirstRows:
    """See ``sink.first_rows.FirstRows``; without a choice ``safe-mode`` means upserts, else fail.

    Raises SinkOptionNotSupported where there is no ledger that says whether rows are our own.
    """

    def __init__(self, settings: MysqlSettings, existing: OnExisting | None) -> None:
        if existing in (OnExisting.FAIL, OnExisting.TRUNCATE) and not settings.exactly_once:
            raise SinkOptionNotSupported(
                f"on-existing={existing} needs the ledger: without it rows that were there cannot"
                " be told from those that were delivered before a restart",
                object="snapshot.on-existing",
                hint="set exactly-once=true, or on-existing=upsert",
            )
        self._settings = settings
        by_default = OnExisting.UPSERT if settings.repeatable else OnExisting.FAIL
        self._existing = existing or by_default

    def check(self, tables: Iterable[Table]) -> None:
        """Raises TargetNotEmpty for a table that must have no rows and has some."""
        if self._existing is OnExisting.FAIL:
            session = SinkSession(self._settings)
            try:
                self._check_empty(session, self._names(tables))
            finally:
                session.close()

    def prepare(self, feed: FeedId, tables: Iterable[Table]) -> None:
        """Look once more, or empty the tables, under a lock that whoever does so holds.

        A process that was frozen in between finds its connection gone, or nobody else further.
        Raises TargetNotEmpty, MysqlLockWait, or what the server says.
        """
        if self._existing is OnExisting.UPSERT:
            return
        session = SinkSession(self._settings)
        try:
            ledger.create(session)
            with mapped(f"target {self._settings.address}"):
                held = session.rows("SELECT GET_LOCK(%s, %s) AS l", lock_name(feed, 0), self._wait)
                if not held[0]["l"]:
                    raise MysqlLockWait(
                        "another process prepares the tables for their rows",
                        object=f"target {self._settings.address}",
                        hint="it is waited for",
                    )
            if not ledger.is_known(session, feed):
                names = self._names(tables)
                if self._existing is OnExisting.FAIL:
                    self._check_empty(session, names)
                else:
                    self._empty(session, names)
        finally:
            session.close()

    @property
    def _wait(self) -> int:
        """Seconds for a lock: less than after which the server is taken for gone."""
        return min(_LOCK_WAIT_S, max(1, int(self._settings.read_timeout / 2)))

    def _names(self, tables: Iterable[Table]) -> list[TableName]:
        """Tables of the target, each once, though several may become one."""
        route = self._settings.names.target
        return sorted({route(table.schema, table.name) for table in tables})

    def _check_empty(self, session: SinkSession, names: Iterable[TableName]) -> None:
        for name in names:
            object = f"{'.'.join(name)} at {self._settings.address}"
            with mapped(object):
                some = f"SELECT 1 AS x FROM {quoted(*name)} LIMIT {_COUNTED + 1}"
                found = session.rows(f"SELECT COUNT(*) AS n FROM ({some}) AS t")[0]["n"]
            if found:
                rows = f"more than {_COUNTED:,}" if found > _COUNTED else str(found)
                raise TargetNotEmpty(
                    f"the table has rows already: {rows}",
                    object=object,
                    hint="empty it; or snapshot.on-existing: upsert keeps what is there and"
                    " replaces rows of the same key, truncate empties all tables first",
                )

    def _empty(self, session: SinkSession, names: Iterable[TableName]) -> None:
        with mapped(f"target {self._settings.address}"):
            # A parent could not be emptied else; its children are emptied too, or were theirs.
            session.run("SET SESSION foreign_key_checks = 0")
            session.run(f"SET SESSION lock_wait_timeout = {self._wait}")
        for name in names:
            with mapped(f"{'.'.join(name)} at {self._settings.address}"):
                session.run(f"TRUNCATE TABLE {quoted(*name)}")
