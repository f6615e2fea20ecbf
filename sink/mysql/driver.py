"""The driver side of a MySQL sink (``sink.contract.SinkDriver``)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import pymysql

from cdc.base.errors import DefiniteError, InvalidError
from cdc.base.ids import FeedId
from cdc.base.position import Position, stand
from cdc.base.redaction import plain
from cdc.binlog.table_map import TableMap
from cdc.schema.table import Table
from sink.contract import Applied, Destination, Layout, Recovered
from sink.mysql import holders, ledger
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.ddl import ledger as ddl_ledger
from sink.mysql.deliverer import may_binlog
from sink.mysql.errors import (
    MysqlAccessDenied,
    MysqlLockWait,
    MysqlReadOnly,
    ledger_lost,
    map_error,
)
from sink.mysql.methods import chosen
from sink.mysql.placement import NOT_SHARED, TARGET, Placement, Shared, parted, place, spreads
from sink.mysql.settings import Apply, Atomicity, MysqlSettings
from sink.mysql.sync_points import TABLE as SYNC_POINTS
from sink.mysql.target import read_table, references

# An earlier worker may still commit what it has. What it loses is delivered again, so it is not
# waited for longer than a takeover may last: its host may be frozen.
_PATIENCE_S = 5
# What is being committed is done in much less.
_MOMENT_S = 1
_log = logging.getLogger(__name__)


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
        tables = list(tables)
        self._settings.names.check((t.schema, t.name) for t in tables)
        session = SinkSession(self._settings)
        try:
            binlog = self._check_server(session)
            if self._settings.exactly_once:
                ledger.create(session)
            with mapped(f"target {self._settings.address}"):
                chosen(
                    session,
                    [(table, None) for table in tables],
                    may_binlog=binlog,
                    upstream_mariadb=mariadb,
                )
        finally:
            session.close()

    def recover(
        self,
        feed: FeedId,
        epoch: int,
        slots: int,
        tables: Sequence[Table],
        position: Position,
        *,
        begun: bool = False,
    ) -> Recovered:
        """Give tables their buckets, and see :func:`sink.mysql.ledger.take_over`.

        Tables with which a bucket is ahead of ``position``, and those that are tied to them, stay
        where they were when it came there. Raises
        MysqlLedgerLost if delivery has ``begun`` and the ledger knows nothing of it: this is
        another server, without the rows.
        """
        session = SinkSession(self._settings)
        try:
            wanted, tied = self._wanted(session, tables)
            shared = self._shared(tables)
            if not self._settings.exactly_once:
                return Recovered(wanted.layout, {}, recorded=False)
            self._impatient(session, _PATIENCE_S)
            ledger.create(session)

            apart: frozenset[str] = frozenset()

            def choose(found: Mapping[int, Position], stored: Placement | None) -> Placement:
                nonlocal apart
                if stored is None and begun:
                    raise ledger_lost(feed, self._settings.address)
                here, stands = stand(position), [stand(p) for p in found.values()]
                if stored is None or all(p.within(here) for p in stands):
                    return wanted
                fresh, ties = wanted, tied
                if stored.buckets != wanted.buckets:
                    fresh, ties = self._wanted(session, tables, stored.buckets)
                held = stored.joined(
                    fresh,
                    ties,
                    lambda table: any(p.of(table) > here.of(table) for p in stands),
                    shared,
                )
                apart = parted(held.tables, fresh, ties, shared)
                return held

            placement, positions = self._take_over(session, feed, epoch, slots, choose)
        finally:
            session.close()
        reached = {(TARGET, bucket): p for bucket, p in positions.items()}
        return Recovered(placement.layout, reached, kept=placement != wanted, parted=apart)

    def outgrown(self, layout: Layout, tables: Iterable[Table]) -> bool:
        """Rows are spread by the keys that a table has, and tied tables share a bucket.

        A table that could be spread may stay whole: the next recovery spreads it.
        """
        if layout.counts[TARGET] == 1:
            return False
        known = [table for table in tables if table.full_name in layout.placed]
        if not known:
            return False
        session = SinkSession(self._settings)
        try:
            wanted, tied = self._wanted(session, known)
        finally:
            session.close()
        return bool(parted(layout.placed, wanted, tied, self._shared(known)))

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """``rows`` or ``sql``, or ``none`` with what keeps the table's rows from being applied."""
        session = SinkSession(self._settings)
        try:
            with mapped(f"target {self._settings.address}"):
                binlog = may_binlog(session)
                return [_applied(session, *one, binlog, mariadb) for one in tables]
        finally:
            session.close()

    def delivered(self, feed: FeedId, *, wait: bool = True) -> Mapping[Destination, Position]:
        """Positions in the ledger."""
        if not self._settings.exactly_once:
            return {}
        session = SinkSession(self._settings)
        try:
            if not wait:
                self._impatient(session, _MOMENT_S)
            ledger.create(session)
            found = ledger.positions(session, feed)
        except MysqlLockWait:
            if wait:
                raise
            session.close()
            session = SinkSession(self._settings)
            found = ledger.delivered(session, feed)
        finally:
            session.close()
        return {(TARGET, bucket): position for bucket, position in found.items()}

    def admit(self, feed: FeedId) -> Collection[FeedId]:
        """The ledger's tables, and whose rows of this name they hold."""
        if not self._settings.exactly_once:
            return ()
        session = SinkSession(self._settings)
        try:
            ledger.create(session)
            ddl_ledger.create(session)
            return ledger.feeds(session, feed.name) | ddl_ledger.feeds(session, feed.name)
        finally:
            session.close()

    def forget(self, feed: FeedId, slots: int) -> None:
        """Remove the ledger rows of the changefeed's incarnations up to this one.

        A deliverer that still runs stops there.
        """
        if not self._settings.exactly_once:
            return
        session = SinkSession(self._settings)
        try:
            ledger.forget(session, feed)
            ddl_ledger.forget(session, feed)
            ledger.forget(session, feed, (SYNC_POINTS,))
        finally:
            session.close()

    def _take_over(
        self, session: SinkSession, feed: FeedId, epoch: int, slots: int, choose: ledger.Choose
    ) -> tuple[Placement, Mapping[int, Position]]:
        """Take over; a connection of ours that keeps the ledger locked is ended after a while."""
        try:
            return ledger.take_over(session, feed, epoch, choose)
        except MysqlLockWait:
            # The failure has closed the session.
            again = SinkSession(self._settings)
            try:
                with mapped(f"target {self._settings.address}"):
                    ended = holders.end(again, ledger.older(again, feed, epoch), slots)
                if not ended:
                    raise
                _log.warning("changefeed %s: ended connections %s at the target", feed, ended)
                self._impatient(again, _PATIENCE_S)
                return ledger.take_over(again, feed, epoch, choose)
            finally:
                again.close()

    def _impatient(self, session: SinkSession, most_s: int) -> None:
        """Have the server say that a lock is held by another before we take the server for gone."""
        patience = min(most_s, max(1, int(self._settings.read_timeout / 2)))
        with mapped(f"target {self._settings.address}"):
            session.run(f"SET SESSION innodb_lock_wait_timeout = {patience}")

    def _wanted(
        self, session: SinkSession, tables: Sequence[Table], buckets: int | None = None
    ) -> tuple[Placement, list[tuple[str, str]]]:
        """A placement, and the tables that foreign keys of the target tie together.

        Over as many ``buckets`` as the settings want, if nothing else is said.
        """
        atomicity = self._settings.transaction_atomicity
        if buckets is None:
            buckets = 1 if atomicity is Atomicity.GLOBAL else self._settings.worker_count
        if buckets == 1:
            return place(tables, {}, (), 1), []
        shared = self._shared(tables)
        with mapped(f"target {self._settings.address}"):
            tied = self._tied(session, tables, shared)
        targets: dict[str, Table] = {}
        read: dict[tuple[str, str], Table] = {}
        if atomicity is Atomicity.NONE:
            for table in tables:
                if not spreads(table, table):
                    continue
                # What cannot be read is an error where its rows come by, not here.
                with suppress(DefiniteError):
                    name = self._settings.names.target(table.schema, table.name)
                    if name not in read:
                        read[name] = read_table(session, *name).table
                    targets[table.full_name] = read[name]
        return place(tables, targets, tied, buckets, shared), tied

    def _shared(self, tables: Iterable[Table]) -> Shared:
        """The target's table, in lower case, of each table that becomes one with others."""
        names = self._settings.names
        if not names.merging:
            return NOT_SHARED
        groups = names.groups((t.schema, t.name) for t in tables)
        return {
            ".".join(one).lower(): ".".join(target).lower()
            for target, members in groups.items()
            for one in members
        }

    def _tied(
        self, session: SinkSession, tables: Sequence[Table], shared: Shared
    ) -> list[tuple[str, str]]:
        """Foreign keys of the target, by what its tables are placed by: upstream's names."""
        names = {t.full_name: self._settings.names.target(t.schema, t.name) for t in tables}
        upstream = {
            ".".join(name).lower(): shared.get(ours.lower(), ours) for ours, name in names.items()
        }
        pairs = references(session, {schema for schema, _ in names.values()})
        return [(upstream.get(a.lower(), a), upstream.get(b.lower(), b)) for a, b in pairs]

    def _check_server(self, session: SinkSession) -> bool:
        """Whether the target takes row events; raises if it takes no writes."""
        name = f"target {self._settings.address}"
        try:
            if int(session.rows("SELECT @@global.read_only AS r")[0]["r"]):
                raise MysqlReadOnly(
                    "read_only is on",
                    object=name,
                    hint="SET GLOBAL read_only = 0, or give the address of the primary",
                )
            binlog = may_binlog(session)
        except pymysql.err.Error as error:
            raise map_error(error, name) from None
        if not binlog and self._settings.apply is Apply.ROWS:
            right = "BINLOG REPLAY" if session.target.mariadb else "REPLICATION_APPLIER"
            raise MysqlAccessDenied(
                "apply=rows, but the sink's user has no right to BINLOG",
                object=name,
                hint=f"GRANT {right} ON *.* TO the sink's user",
            )
        return binlog


def _applied(
    session: SinkSession, table: Table, stored: TableMap | None, binlog: bool, mariadb: bool
) -> Applied:
    try:
        way = chosen(session, [(table, stored)], may_binlog=binlog, upstream_mariadb=mariadb)[0]
    except (DefiniteError, InvalidError) as error:
        return Applied(table.full_name, "none", plain(error.message))
    return Applied(table.full_name, str(way.choice.method), way.choice.reason)
