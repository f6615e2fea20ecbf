"""The driver side of a MySQL sink (``sink.contract.SinkDriver``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import pymysql

from cdc.base.errors import DefiniteError
from cdc.base.position import Position
from cdc.binlog.table_map import TableMap
from cdc.schema.table import Table
from sink.contract import Applied, Destination, Recovered
from sink.mysql import ledger
from sink.mysql.compat import check_definition, reasons
from sink.mysql.connection import Session, mapped
from sink.mysql.deliverer import announce
from sink.mysql.errors import MysqlAccessDenied, MysqlReadOnly, map_error, number_of
from sink.mysql.placement import TARGET, Placement, place
from sink.mysql.settings import Atomicity, MysqlSettings
from sink.mysql.target import read_table, references

_DENIED = frozenset((1044, 1142, 1227))


class MysqlDriver:
    """Checks, recovery and buckets of one changefeed's MySQL sink."""

    def __init__(self, settings: MysqlSettings) -> None:
        self._settings = settings

    @property
    def wants_watermarks(self) -> bool:
        """The ledger says how far a database is complete."""
        return False

    def verify(self, tables: Iterable[Table], *, mariadb: bool) -> None:
        """Login, ledger, the right to BINLOG, and each table against the target's.

        The definitions are compared here, the upstream's TABLE_MAP only where its rows come by.
        """
        session = Session(self._settings)
        try:
            self._check_server(session)
            ledger.create(session)
            for table in tables:
                target = read_table(session, table.schema, table.name)
                check_definition(table, target, same_family=mariadb == session.target.mariadb)
        finally:
            session.close()

    def recover(
        self, feed: str, epoch: int, slots: int, tables: Sequence[Table], position: Position
    ) -> Recovered:
        """Give tables their buckets, and see :func:`sink.mysql.ledger.take_over`.

        While a bucket is ahead of ``position``, the placement holds under which it came there;
        ``slots`` mean nothing to a database.
        """
        session = Session(self._settings)
        try:
            ledger.create(session)
            wanted = self._wanted(session, tables)

            def choose(found: Mapping[int, Position], stored: Placement | None) -> Placement:
                if stored is None or all(p <= position for p in found.values()):
                    return wanted
                return stored.joined(wanted)

            placement, positions = ledger.take_over(session, feed, epoch, choose)
        finally:
            session.close()
        reached = {(TARGET, bucket): p for bucket, p in positions.items()}
        return Recovered(placement.layout, reached, kept=placement != wanted)

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """``rows``, or ``none`` with what keeps the table's rows from being applied."""
        session = Session(self._settings)
        try:
            same_family = mariadb == session.target.mariadb
            return [_applied(session, table, stored, same_family) for table, stored in tables]
        finally:
            session.close()

    def delivered(self, feed: str) -> Mapping[Destination, Position]:
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

    def _wanted(self, session: Session, tables: Sequence[Table]) -> Placement:
        atomicity = self._settings.transaction_atomicity
        buckets = 1 if atomicity is Atomicity.GLOBAL else self._settings.worker_count
        if buckets == 1:
            return place(tables, {}, (), 1)
        with mapped(f"target {self._settings.address}"):
            tied = references(session, {t.schema for t in tables})
        targets = {}
        if atomicity is Atomicity.NONE:
            for table in tables:
                # What cannot be read is an error where its rows come by, not here.
                with suppress(DefiniteError):
                    found = read_table(session, table.schema, table.name)
                    targets[table.full_name] = found.table
        return place(tables, targets, tied, buckets)

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


def _applied(session: Session, table: Table, stored: TableMap | None, same_family: bool) -> Applied:
    try:
        target = read_table(session, table.schema, table.name)
        found = reasons(table, stored, target, same_family=same_family)
    except DefiniteError as error:
        found = [error.message]
    if found:
        return Applied(table.full_name, "none", "; ".join(found))
    why = "row images mean the same on both sides"
    return Applied(table.full_name, "rows", why if stored else f"{why}, as far as definitions say")
