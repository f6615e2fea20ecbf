"""The driver side of a MySQL sink (``sink.contract.SinkDriver``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pymysql

from cdc.base.position import Position
from cdc.schema.table import Table
from sink.dispatch.rules import Router
from sink.mysql import ledger
from sink.mysql.compat import check_definition
from sink.mysql.connection import Session
from sink.mysql.deliverer import TARGET, announce
from sink.mysql.errors import MysqlAccessDenied, MysqlReadOnly, map_error, number_of
from sink.mysql.settings import MysqlSettings
from sink.mysql.target import read_table

BUCKETS = 1
_DENIED = frozenset((1044, 1142, 1227))


class MysqlDriver:
    """Checks, recovery and buckets of one changefeed's MySQL sink."""

    def __init__(self, settings: MysqlSettings) -> None:
        self._settings = settings

    @property
    def wants_watermarks(self) -> bool:
        """The ledger says how far a database is complete."""
        return False

    def verify(self, tables: Iterable[Table]) -> None:
        """Login, ledger, the right to BINLOG, and each table against the target's.

        The definitions are compared here, the upstream's TABLE_MAP only where its rows come by.
        """
        session = Session(self._settings)
        try:
            self._check_server(session)
            ledger.create(session)
            for table in tables:
                target = read_table(session, table.schema, table.name)
                check_definition(table, target)
        finally:
            session.close()

    def router(self, partitions: Mapping[str, int] | None = None) -> Router:
        """Every table to ``("mysql", bucket)``."""
        return router_of(partitions)

    def ensure(self, names: Iterable[str]) -> Mapping[str, int]:
        """The number of buckets, which is what a database has in place of partitions."""
        return dict.fromkeys(names, BUCKETS)

    def destinations(self) -> tuple[tuple[str, int], ...]:
        """Every bucket."""
        return tuple((TARGET, bucket) for bucket in range(BUCKETS))

    def recover(self, feed: str, epoch: int, slots: int) -> Mapping[tuple[str, int], Position]:
        """See :func:`sink.mysql.ledger.recover`; ``slots`` mean nothing to a database."""
        session = Session(self._settings)
        try:
            ledger.create(session)
            found = ledger.recover(session, feed, epoch, range(BUCKETS))
        finally:
            session.close()
        return {(TARGET, bucket): position for bucket, position in found.items()}

    def delivered(self, feed: str) -> Mapping[tuple[str, int], Position]:
        """Positions in the ledger."""
        session = Session(self._settings)
        try:
            ledger.create(session)
            found = ledger.positions(session, feed)
        finally:
            session.close()
        return {(TARGET, bucket): position for bucket, position in found.items()}

    def forget(self, feed: str, slots: int) -> None:
        """Remove the changefeed's ledger rows: a deliverer that still runs stops there."""
        session = Session(self._settings)
        try:
            ledger.forget(session, feed)
        finally:
            session.close()

    def _check_server(self, session: Session) -> None:
        name = f"target {self._settings.address}"
        try:
            if int(session.rows("SELECT @@global.read_only AS r")[0]["r"]):
                raise MysqlReadOnly(
                    "read_only is on",
                    object=name,
                    hint="SET GLOBAL read_only = 0, or give the address of the primary",
                )
            announce(session)
        except pymysql.err.Error as error:
            found = map_error(error, name)
            if number_of(error) not in _DENIED:
                raise found from None
            right = "BINLOG REPLAY" if session.target.mariadb else "REPLICATION_APPLIER"
            raise MysqlAccessDenied(
                found.message, object=name, hint=f"GRANT {right} ON *.* TO the sink's user"
            ) from None


def router_of(partitions: Mapping[str, int] | None = None) -> Router:
    """The router of every MySQL sink."""
    return Router((), TARGET, partitions)
