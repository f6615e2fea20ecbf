"""The ledger of schema changes: ``tidegate.ddl``, one row a change, in states of its own.

The row with ts 0 holds the epoch. Every step locks that row and compares, so whoever has written a
newer epoch there has ended all older ones. A connection that runs a change's statement holds the
change's named lock (:func:`lock_name`) from before the row says ``executing`` until it ends, so who
has that lock knows that nobody runs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar

import pymysql

from cdc.base.ts import Ts
from sink.errors import FencedEpoch
from sink.mysql.connection import Session, mapped
from sink.mysql.errors import MysqlLedgerInvalid, map_error, number_of
from sink.mysql.ledger import SCHEMA
from sink.schema_change import Recorded

T = TypeVar("T")
TABLE = "`tidegate`.`ddl`"
_NAME = "table tidegate.ddl"
_CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
  `changefeed` varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `ts` bigint NOT NULL,
  `epoch` bigint NOT NULL,
  `state` varchar(16) CHARACTER SET ascii NOT NULL,
  `connection` bigint unsigned NULL,
  `server` varchar(255) CHARACTER SET utf8mb4 NULL,
  `sql` longtext CHARACTER SET utf8mb4 NULL,
  `witness` longtext CHARACTER SET utf8mb4 NULL,
  `begun` datetime(6) NULL,
  `ended` datetime(6) NULL,
  PRIMARY KEY (`changefeed`, `ts`)
) ENGINE = InnoDB"""
_COLUMNS = frozenset(
    ("changefeed", "ts", "epoch", "state", "connection", "server", "sql", "witness", "begun")
)
_EPOCH = "epoch"
_NO_TABLE = frozenset((1049, 1146))


@dataclass(frozen=True, slots=True)
class Record:
    """A row: ``witness`` is what the target showed of each table before the statement was sent."""

    state: Recorded
    epoch: int
    connection: int = 0
    witness: Mapping[str, Any] = field(default_factory=dict)


def digest(feed: str) -> str:
    """A changefeed's name as 16 characters that any object may have in its own name."""
    return blake2b(feed.encode(), digest_size=8).hexdigest()


def lock_name(feed: str, ts: Ts) -> str:
    """The named lock of one change."""
    return f"tidegate:ddl:{digest(feed)}:{ts}"


def create(session: Session) -> None:
    """Create schema and table where they are missing, and check the form."""
    with mapped(_NAME):
        if not session.rows("SHOW DATABASES LIKE %s", SCHEMA):
            session.run(f"CREATE DATABASE IF NOT EXISTS `{SCHEMA}`")
        if not _columns(session):
            session.run(_CREATE)
        if not _columns(session) >= _COLUMNS:
            raise MysqlLedgerInvalid(
                "it has other columns than ours",
                object=_NAME,
                hint="rename it while no changefeed runs; it is created again",
            )


def _columns(session: Session) -> frozenset[str]:
    found = session.rows(
        "SELECT column_name AS c FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = 'ddl'",
        SCHEMA,
    )
    return frozenset(str(r["c"]).lower() for r in found)


def take_over(session: Session, feed: str, epoch: int) -> dict[Ts, Record]:
    """Write the epoch; all records by ts. Raises FencedEpoch if there is a newer one."""

    def step() -> dict[Ts, Record]:
        session.run(
            f"INSERT IGNORE INTO {TABLE} (changefeed, ts, epoch, state) VALUES (%s, 0, 0, %s)",
            feed,
            _EPOCH,
        )
        found = _epoch(session, feed)
        if found > epoch:
            raise _fenced(feed, epoch, found)
        session.run(f"UPDATE {TABLE} SET epoch = %s WHERE changefeed = %s AND ts = 0", epoch, feed)
        return _records(session, feed)

    return _transaction(session, step)


def record(session: Session, feed: str, epoch: int, ts: Ts) -> Record | None:
    """The record of one change, None if there is none."""
    return _transaction(session, lambda: _own(session, feed, epoch, ts))


def begin(
    session: Session, feed: str, epoch: int, ts: Ts, *, connection: int, sql: str, witness: Any
) -> None:
    """Record ``executing``; the statement may be sent when this has returned."""

    def step() -> None:
        _own(session, feed, epoch, ts)
        session.run(
            f"REPLACE INTO {TABLE} (changefeed, ts, epoch, state, connection, server, `sql`,"
            " witness, begun) VALUES (%s, %s, %s, %s, %s, CONCAT(@@hostname, ':', @@port), %s, %s,"
            " UTC_TIMESTAMP(6))",
            feed,
            ts,
            epoch,
            str(Recorded.EXECUTING),
            connection,
            sql,
            json.dumps(witness),
        )

    _transaction(session, step)


def end(session: Session, feed: str, epoch: int, ts: Ts, state: Recorded, sql: str = "") -> None:
    """Record ``done`` or ``skipped``; a record that has ended stays as it is."""

    def step() -> None:
        found = _own(session, feed, epoch, ts)
        if found is not None and found.state is not Recorded.EXECUTING:
            return
        session.run(
            f"INSERT INTO {TABLE} (changefeed, ts, epoch, state, `sql`, ended)"
            " VALUES (%s, %s, %s, %s, %s, UTC_TIMESTAMP(6))"
            " ON DUPLICATE KEY UPDATE epoch = %s, state = %s, ended = UTC_TIMESTAMP(6)",
            feed,
            ts,
            epoch,
            str(state),
            sql,
            epoch,
            str(state),
        )

    _transaction(session, step)


def forget_below(session: Session, feed: str, epoch: int, ts: Ts) -> None:
    """Remove records at or below ``ts`` that have ended."""

    def step() -> None:
        _own(session, feed, epoch, ts)
        session.run(
            f"DELETE FROM {TABLE} WHERE changefeed = %s AND ts > 0 AND ts <= %s AND state <> %s",
            feed,
            ts,
            str(Recorded.EXECUTING),
        )

    _transaction(session, step)


def forget(session: Session, feed: str) -> None:
    """Remove a changefeed's rows: a changer that still runs finds no epoch, and stops."""
    try:
        session.run(f"DELETE FROM {TABLE} WHERE changefeed = %s", feed)
    except pymysql.err.Error as error:
        if number_of(error) not in _NO_TABLE:
            raise map_error(error, _NAME) from None


def _transaction(session: Session, step: Callable[[], T]) -> T:
    with mapped(_NAME):
        session.run("BEGIN")
        try:
            result = step()
            session.run("COMMIT")
        except BaseException:
            session.close()
            raise
    return result


def _epoch(session: Session, feed: str) -> int:
    found = session.rows(
        f"SELECT epoch AS e FROM {TABLE} WHERE changefeed = %s AND ts = 0 FOR UPDATE", feed
    )
    return int(found[0]["e"]) if found else 0


def _own(session: Session, feed: str, epoch: int, ts: Ts) -> Record | None:
    """Lock the epoch row, see that it is ours; the change's record."""
    found = _epoch(session, feed)
    if found != epoch:
        raise _fenced(feed, epoch, found)
    return _records(session, feed, ts).get(ts)


def _records(session: Session, feed: str, ts: Ts | None = None) -> dict[Ts, Record]:
    found = session.rows(
        f"SELECT ts AS t, epoch AS e, state AS s, connection AS c, witness AS w FROM {TABLE}"
        " WHERE changefeed = %s AND ts > 0" + ("" if ts is None else " AND ts = %s"),
        *((feed,) if ts is None else (feed, ts)),
    )
    return {
        int(row["t"]): Record(
            Recorded(str(row["s"])),
            int(row["e"]),
            int(row["c"] or 0),
            json.loads(row["w"]) if row["w"] else {},
        )
        for row in found
    }


def _fenced(feed: str, epoch: int, found: int) -> FencedEpoch:
    return FencedEpoch(
        f"our epoch is {epoch}, that of the schema changes is {found or 'gone'}",
        object=f"changefeed {feed}",
        hint="another server has taken over this changefeed, or it was removed",
    )
