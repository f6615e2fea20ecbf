"""The ledger of a MySQL target: how far each bucket stands, in the transaction of the rows.

One row of ``tidegate.ledger`` a changefeed and bucket: ``(epoch, ts, row)``. A deliverer locks its
bucket's row first in each transaction and finds its own epoch there, or stops: so a recovery, which
writes a newer epoch into the same rows, waits for what an older deliverer has open, and no older
deliverer can commit after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pymysql

from cdc.base.position import Position
from sink.errors import FencedEpoch
from sink.mysql.connection import Session, mapped
from sink.mysql.errors import MysqlAccessDenied, MysqlLedgerInvalid, map_error, number_of

SCHEMA = "tidegate"
LEDGER = "`tidegate`.`ledger`"
_NAME = "table tidegate.ledger"
_CREATE = f"""CREATE TABLE IF NOT EXISTS {LEDGER} (
  `changefeed` varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `bucket` int NOT NULL,
  `epoch` bigint NOT NULL,
  `ts` bigint NULL,
  `row` bigint NULL,
  PRIMARY KEY (`changefeed`, `bucket`)
) ENGINE = InnoDB"""
_COLUMNS = frozenset(("changefeed", "bucket", "epoch", "ts", "row"))
_GRANT = "GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON `tidegate`.* TO the sink's user"
_DENIED = frozenset((1044, 1045, 1142, 1143, 1227))
_NO_TABLE = frozenset((1049, 1146))
# A changefeed that nobody has: rights are tried on it, and nothing of it stays.
_PROBE = "\x00probe"


@dataclass(frozen=True, slots=True)
class Entry:
    """A ledger row; ``position`` is None before the first delivery."""

    epoch: int
    position: Position | None


def create(session: Session) -> None:
    """Create schema and table where they are missing, and check form and rights.

    Raises MysqlLedgerInvalid or MysqlAccessDenied with the grant that is missing.
    """
    try:
        columns = _columns(session)
        if not columns:
            if not session.rows("SHOW DATABASES LIKE %s", SCHEMA):
                session.run(f"CREATE DATABASE IF NOT EXISTS `{SCHEMA}`")
            session.run(_CREATE)
            columns = _columns(session)
        engine = session.rows(
            "SELECT engine AS e FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = 'ledger'",
            SCHEMA,
        )
        if not columns >= _COLUMNS or [str(r["e"]).lower() for r in engine] != ["innodb"]:
            raise MysqlLedgerInvalid(
                "it has other columns than ours, or is not an InnoDB table",
                object=_NAME,
                hint="rename it while no changefeed runs; it is created again",
            )
        _try_rights(session)
    except pymysql.err.Error as error:
        raise _denied(error) from None


def _columns(session: Session) -> frozenset[str]:
    found = session.rows(
        "SELECT column_name AS c FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = 'ledger'",
        SCHEMA,
    )
    return frozenset(str(r["c"]).lower() for r in found)


def _try_rights(session: Session) -> None:
    session.run("BEGIN")
    try:
        session.run(f"INSERT INTO {LEDGER} VALUES (%s, 0, 0, NULL, NULL)", _PROBE)
        session.rows(f"SELECT * FROM {LEDGER} WHERE changefeed = %s FOR UPDATE", _PROBE)
        session.run(f"UPDATE {LEDGER} SET epoch = 1 WHERE changefeed = %s", _PROBE)
        session.run(f"DELETE FROM {LEDGER} WHERE changefeed = %s", _PROBE)
    finally:
        session.run("ROLLBACK")


def _denied(error: pymysql.err.Error) -> Exception:
    found = map_error(error, _NAME)
    if number_of(error) not in _DENIED:
        return found
    return MysqlAccessDenied(found.message, object=_NAME, hint=_GRANT)


def lock(session: Session, feed: str, bucket: int, epoch: int) -> Position | None:
    """Lock the bucket's row in the open transaction; its position.

    Waits for whoever has it locked. Raises FencedEpoch unless it has our epoch; PyMySQL's errors
    pass.
    """
    found = session.rows(
        f"SELECT epoch AS e, ts AS t, `row` AS r FROM {LEDGER}"
        " WHERE changefeed = %s AND bucket = %s FOR UPDATE",
        feed,
        bucket,
    )
    entry = _entry(found[0]) if found else None
    if entry is None or entry.epoch != epoch:
        raise _fenced(feed, epoch, entry.epoch if entry else 0)
    return entry.position


def write(session: Session, feed: str, bucket: int, epoch: int, position: Position) -> None:
    """Set the position of a row that ``lock`` has locked. PyMySQL's errors pass."""
    changed = session.run(
        f"UPDATE {LEDGER} SET ts = %s, `row` = %s"
        " WHERE changefeed = %s AND bucket = %s AND epoch = %s",
        position.ts,
        position.row,
        feed,
        bucket,
        epoch,
    )
    if changed != 1:
        raise _fenced(feed, epoch, 0)


def recover(session: Session, feed: str, epoch: int, buckets: Iterable[int]) -> dict[int, Position]:
    """Fence every deliverer of another epoch, then read what is delivered, by bucket.

    Rows are written before positions are read, in one transaction that holds their locks. May be
    repeated. Raises FencedEpoch if the ledger has a newer epoch.
    """
    with mapped(_NAME):
        session.run("BEGIN")
        try:
            newest = max((e.epoch for e in _locked(session, feed).values()), default=0)
            if newest > epoch:
                raise _fenced(feed, epoch, newest)
            for bucket in sorted(buckets):
                session.run(
                    f"INSERT INTO {LEDGER} (changefeed, bucket, epoch) VALUES (%s, %s, %s)"
                    " ON DUPLICATE KEY UPDATE epoch = %s",
                    feed,
                    bucket,
                    epoch,
                    epoch,
                )
            # A row of a bucket that is no longer used fences its old deliverer just as well.
            session.run(f"UPDATE {LEDGER} SET epoch = %s WHERE changefeed = %s", epoch, feed)
            entries = _locked(session, feed)
            session.run("COMMIT")
        except BaseException:
            session.close()
            raise
    return {b: e.position for b, e in entries.items() if e.position is not None}


def positions(session: Session, feed: str) -> dict[int, Position]:
    """What is delivered, by bucket; waits for transactions that are being committed."""
    with mapped(_NAME):
        session.run("BEGIN")
        entries = _locked(session, feed)
        session.run("ROLLBACK")
    return {b: e.position for b, e in entries.items() if e.position is not None}


def forget(session: Session, feed: str) -> None:
    """Remove a changefeed's rows: a deliverer that still runs finds none, and stops."""
    try:
        session.run(f"DELETE FROM {LEDGER} WHERE changefeed = %s", feed)
    except pymysql.err.Error as error:
        if number_of(error) not in _NO_TABLE:
            raise map_error(error, _NAME) from None


def _locked(session: Session, feed: str) -> Mapping[int, Entry]:
    found = session.rows(
        f"SELECT bucket AS b, epoch AS e, ts AS t, `row` AS r FROM {LEDGER}"
        " WHERE changefeed = %s ORDER BY bucket FOR UPDATE",
        feed,
    )
    return {int(row["b"]): _entry(row) for row in found}


def _entry(row: Mapping[str, int | None]) -> Entry:
    ts, at = row["t"], row["r"]
    position = None if ts is None or at is None else Position(int(ts), int(at))
    return Entry(int(row["e"] or 0), position)


def _fenced(feed: str, epoch: int, found: int) -> FencedEpoch:
    return FencedEpoch(
        f"our epoch is {epoch}, the ledger's is {found or 'gone'}",
        object=f"changefeed {feed}",
        hint="another server has taken over this changefeed, or it was removed",
    )
