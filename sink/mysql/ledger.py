"""The ledger of a MySQL target: how far each bucket stands, in the transaction of the rows.

One row of ``tidegate.ledger`` a changefeed and bucket: ``(epoch, ts, row)``, and in ``held`` tables
that stand lower. A deliverer locks its
bucket's row first in each transaction and finds its own epoch there, or stops: so a recovery, which
writes a newer epoch into the same rows, waits for what an older deliverer has open, and no older
deliverer can commit after it.

``tidegate.placement`` has one row a changefeed: which tables its buckets hold. Buckets' positions
mean something under that placement only, so it changes in the same transaction as they do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pymysql

from cdc.base.position import Position, Stand, stand
from sink.errors import FencedEpoch
from sink.mysql.connection import Session, mapped
from sink.mysql.errors import MysqlAccessDenied, MysqlLedgerInvalid, map_error, number_of
from sink.mysql.placement import Placement

SCHEMA = "tidegate"
LEDGER = "`tidegate`.`ledger`"
_NAME = "table tidegate.ledger"
_CREATE = f"""CREATE TABLE IF NOT EXISTS {LEDGER} (
  `changefeed` varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `bucket` int NOT NULL,
  `epoch` bigint NOT NULL,
  `ts` bigint NULL,
  `row` bigint NULL,
  `held` longtext CHARACTER SET utf8mb4 NULL,
  PRIMARY KEY (`changefeed`, `bucket`)
) ENGINE = InnoDB"""
PLACEMENT = "`tidegate`.`placement`"
_CREATE_PLACEMENT = f"""CREATE TABLE IF NOT EXISTS {PLACEMENT} (
  `changefeed` varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `placed` longtext CHARACTER SET utf8mb4 NOT NULL,
  PRIMARY KEY (`changefeed`)
) ENGINE = InnoDB"""
_HELD = f"ALTER TABLE {LEDGER} ADD COLUMN `held` longtext CHARACTER SET utf8mb4 NULL"
_COLUMNS = frozenset(("changefeed", "bucket", "epoch", "ts", "row", "held"))
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
        if not session.rows("SHOW DATABASES LIKE %s", SCHEMA):
            session.run(f"CREATE DATABASE IF NOT EXISTS `{SCHEMA}`")
        for name, definition in (("ledger", _CREATE), ("placement", _CREATE_PLACEMENT)):
            if not _columns(session, name):
                session.run(definition)
        columns = _columns(session, "ledger")
        if "held" not in columns and columns >= _COLUMNS - {"held"}:
            # It was made by a version that knew of no tables that wait.
            session.run(_HELD)
            columns |= {"held"}
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


def _columns(session: Session, table: str) -> frozenset[str]:
    found = session.rows(
        "SELECT column_name AS c FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s",
        SCHEMA,
        table,
    )
    return frozenset(str(r["c"]).lower() for r in found)


def _try_rights(session: Session) -> None:
    session.run("BEGIN")
    try:
        session.run(f"INSERT INTO {LEDGER} VALUES (%s, 0, 0, NULL, NULL, NULL)", _PROBE)
        session.rows(f"SELECT * FROM {LEDGER} WHERE changefeed = %s FOR UPDATE", _PROBE)
        session.run(f"UPDATE {LEDGER} SET epoch = 1 WHERE changefeed = %s", _PROBE)
        session.run(f"DELETE FROM {LEDGER} WHERE changefeed = %s", _PROBE)
        session.rows(f"SELECT placed FROM {PLACEMENT} WHERE changefeed = %s", _PROBE)
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
        f"SELECT epoch AS e, ts AS t, `row` AS r, held AS h FROM {LEDGER}"
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
        f"UPDATE {LEDGER} SET ts = %s, `row` = %s, held = %s"
        " WHERE changefeed = %s AND bucket = %s AND epoch = %s",
        position.ts,
        position.row,
        _held(position),
        feed,
        bucket,
        epoch,
    )
    if changed != 1:
        raise _fenced(feed, epoch, 0)


Choose = Callable[[Mapping[int, Position], Placement | None], Placement]


def recover(session: Session, feed: str, epoch: int, buckets: Iterable[int]) -> dict[int, Position]:
    """:func:`take_over` with as many buckets as ``buckets`` needs, and nothing known of tables."""
    count = max(buckets) + 1
    return take_over(session, feed, epoch, lambda _, stored: stored or Placement(count))[1]


def take_over(
    session: Session, feed: str, epoch: int, choose: Choose
) -> tuple[Placement, dict[int, Position]]:
    """Fence every deliverer of another epoch; then the placement, and what is delivered by bucket.

    ``choose`` is given the positions and the placement that holds, None for a new changefeed, and
    returns the one that shall hold. All in one transaction, which locks the rows, so that positions
    are final when they are read. May be repeated. Raises FencedEpoch if the ledger has a newer
    epoch.
    """
    with mapped(_NAME):
        session.run("BEGIN")
        try:
            before = _locked(session, feed)
            newest = max((e.epoch for e in before.values()), default=0)
            if newest > epoch:
                raise _fenced(feed, epoch, newest)
            # A row of a bucket that is no longer used fences its old deliverer just as well.
            session.run(f"UPDATE {LEDGER} SET epoch = %s WHERE changefeed = %s", epoch, feed)
            stored = _placement(session, feed)
            placement = choose(_delivered(before), stored)
            if placement != stored:
                session.run(f"REPLACE INTO {PLACEMENT} VALUES (%s, %s)", feed, placement.to_json())
            for bucket in set(range(placement.buckets)) - before.keys():
                session.run(
                    f"INSERT INTO {LEDGER} (changefeed, bucket, epoch) VALUES (%s, %s, %s)"
                    " ON DUPLICATE KEY UPDATE epoch = %s",
                    feed,
                    bucket,
                    epoch,
                    epoch,
                )
            after = _locked(session, feed)
            session.run("COMMIT")
        except BaseException:
            session.close()
            raise
    return placement, _delivered(after)


def positions(session: Session, feed: str) -> dict[int, Position]:
    """What is delivered, by bucket; waits for transactions that are being committed."""
    with mapped(_NAME):
        session.run("BEGIN")
        entries = _locked(session, feed)
        session.run("ROLLBACK")
    return _delivered(entries)


def epochs_below(session: Session, feed: str, epoch: int) -> dict[int, int]:
    """Epochs of buckets that are older than ``epoch``; waits for nobody. PyMySQL's errors pass."""
    found = session.rows(
        f"SELECT bucket AS b, epoch AS e FROM {LEDGER} WHERE changefeed = %s AND epoch < %s",
        feed,
        epoch,
    )
    return {int(row["b"]): int(row["e"]) for row in found}


def forget(session: Session, feed: str) -> None:
    """Remove a changefeed's rows: a deliverer that still runs finds none, and stops."""
    try:
        session.run(f"DELETE FROM {LEDGER} WHERE changefeed = %s", feed)
        session.run(f"DELETE FROM {PLACEMENT} WHERE changefeed = %s", feed)
    except pymysql.err.Error as error:
        if number_of(error) not in _NO_TABLE:
            raise map_error(error, _NAME) from None


def _delivered(entries: Mapping[int, Entry]) -> dict[int, Position]:
    return {b: e.position for b, e in entries.items() if e.position is not None}


def _placement(session: Session, feed: str) -> Placement | None:
    found = session.rows(
        f"SELECT placed AS p FROM {PLACEMENT} WHERE changefeed = %s FOR UPDATE", feed
    )
    return Placement.from_json(str(found[0]["p"])) if found else None


def _locked(session: Session, feed: str) -> Mapping[int, Entry]:
    found = session.rows(
        f"SELECT bucket AS b, epoch AS e, ts AS t, `row` AS r, held AS h FROM {LEDGER}"
        " WHERE changefeed = %s ORDER BY bucket FOR UPDATE",
        feed,
    )
    return {int(row["b"]): _entry(row) for row in found}


def _held(position: Position) -> str | None:
    held = stand(position).to_json()
    return json.dumps(held, sort_keys=True) if held else None


def _entry(row: Mapping[str, Any]) -> Entry:
    ts, at = row["t"], row["r"]
    held = json.loads(row["h"]) if row["h"] else None
    position = None if ts is None or at is None else Stand.from_json(int(ts), int(at), held)
    return Entry(int(row["e"] or 0), position)


def _fenced(feed: str, epoch: int, found: int) -> FencedEpoch:
    return FencedEpoch(
        f"our epoch is {epoch}, the ledger's is {found or 'gone'}",
        object=f"changefeed {feed}",
        hint="another server has taken over this changefeed, or it was removed",
    )
