"""The ledger of a MySQL target: how far each bucket stands, in the transaction of the rows.

One row of ``tidegate.ledger`` a changefeed (``cdc.base.ids.FeedId``) and bucket: ``(epoch, ts,
row)``, and in ``held`` tables that stand lower, and what the upstream calls the transactions there
(``"transactions"``, as in Kafka's ledger). A deliverer locks its bucket's row first in each
transaction and finds its own epoch there, or stops: so a recovery, which writes a newer epoch into
the same rows and removes those of older incarnations, waits for what an older deliverer has open,
and no older deliverer can commit after it.

``tidegate.placement`` has one row a changefeed: which tables its buckets hold. Buckets' positions
mean something under that placement only, so it changes in the same transaction as they do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pymysql

from cdc.base.ids import FeedId
from cdc.base.position import Position, Stand, stand
from sink.errors import FencedEpoch
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.errors import MysqlAccessDenied, MysqlLedgerInvalid, map_error, number_of
from sink.mysql.placement import Placement

SCHEMA = "tidegate"
LEDGER = "`tidegate`.`ledger`"
_NAME = "table tidegate.ledger"
KEY_COLUMNS = """`installation` varchar(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `changefeed` varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `incarnation` bigint NOT NULL,"""
KEY = "`installation`, `changefeed`, `incarnation`"
OWN = "installation = %s AND changefeed = %s AND incarnation = %s"
_CREATE = f"""CREATE TABLE IF NOT EXISTS {LEDGER} (
  {KEY_COLUMNS}
  `bucket` int NOT NULL,
  `epoch` bigint NOT NULL,
  `ts` bigint NULL,
  `row` bigint NULL,
  `held` longtext CHARACTER SET utf8mb4 NULL,
  PRIMARY KEY ({KEY}, `bucket`)
) ENGINE = InnoDB"""
PLACEMENT = "`tidegate`.`placement`"
_CREATE_PLACEMENT = f"""CREATE TABLE IF NOT EXISTS {PLACEMENT} (
  {KEY_COLUMNS}
  `placed` longtext CHARACTER SET utf8mb4 NOT NULL,
  PRIMARY KEY ({KEY})
) ENGINE = InnoDB"""
_TABLES = (LEDGER, PLACEMENT)
_KEY = frozenset(("installation", "changefeed", "incarnation"))
_COLUMNS = _KEY | {"bucket", "epoch", "ts", "row", "held"}
_GRANT = "GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON `tidegate`.* TO the sink's user"
_DENIED = frozenset((1044, 1045, 1142, 1143, 1227))
_NO_TABLE = frozenset((1049, 1146))
# An installation that nobody has: rights are tried on it, and nothing of it stays.
_PROBE = "probe"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A ledger row; ``position`` is None before the first delivery."""

    epoch: int
    position: Position | None


def create(session: SinkSession) -> None:
    """Create schema and table where they are missing, and check form and rights.

    Raises MysqlLedgerInvalid or MysqlAccessDenied with the grant that is missing.
    """
    try:
        if not session.rows("SHOW DATABASES LIKE %s", SCHEMA):
            session.run(f"CREATE DATABASE IF NOT EXISTS `{SCHEMA}`")
        for name, definition in (("ledger", _CREATE), ("placement", _CREATE_PLACEMENT)):
            if not _columns(session, name):
                session.run(definition)
        columns = check_key(session, "ledger")
        check_key(session, "placement")
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


def check_key(session: SinkSession, table: str) -> frozenset[str]:
    """The columns of one of our tables; refuses one of before installations had ids."""
    columns = _columns(session, table)
    if "changefeed" in columns and not columns >= _KEY:
        raise MysqlLedgerInvalid(
            "an earlier version made it, and it does not say whose entries it has",
            object=f"table {SCHEMA}.{table}",
            hint=f"end what still delivers with that version, then DROP DATABASE {SCHEMA}; "
            "it is created again",
        )
    return columns


def _columns(session: SinkSession, table: str) -> frozenset[str]:
    found = session.rows(
        "SELECT column_name AS c FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s",
        SCHEMA,
        table,
    )
    return frozenset(str(r["c"]).lower() for r in found)


def _try_rights(session: SinkSession) -> None:
    session.run("BEGIN")
    try:
        session.run(f"INSERT INTO {LEDGER} VALUES (%s, '', 0, 0, 0, NULL, NULL, NULL)", _PROBE)
        session.rows(f"SELECT * FROM {LEDGER} WHERE installation = %s FOR UPDATE", _PROBE)
        session.run(f"UPDATE {LEDGER} SET epoch = 1 WHERE installation = %s", _PROBE)
        session.run(f"DELETE FROM {LEDGER} WHERE installation = %s", _PROBE)
        session.rows(f"SELECT placed FROM {PLACEMENT} WHERE installation = %s", _PROBE)
    finally:
        session.run("ROLLBACK")


def _denied(error: pymysql.err.Error) -> Exception:
    found = map_error(error, _NAME)
    if number_of(error) not in _DENIED:
        return found
    return MysqlAccessDenied(found.message, object=_NAME, hint=_GRANT)


def lock(session: SinkSession, feed: FeedId, bucket: int, epoch: int) -> Position | None:
    """Lock the bucket's row in the open transaction; its position.

    Waits for whoever has it locked. Raises FencedEpoch unless it has our epoch; PyMySQL's errors
    pass.
    """
    found = session.rows(
        f"SELECT epoch AS e, ts AS t, `row` AS r, held AS h FROM {LEDGER}"
        f" WHERE {OWN} AND bucket = %s FOR UPDATE",
        *feed.key,
        bucket,
    )
    entry = _entry(found[0]) if found else None
    if entry is None or entry.epoch != epoch:
        raise _fenced(feed, epoch, entry.epoch if entry else 0)
    return entry.position


def write(session: SinkSession, feed: FeedId, bucket: int, epoch: int, position: Position) -> None:
    """Set the position of a row that ``lock`` has locked. PyMySQL's errors pass."""
    changed = session.run(
        f"UPDATE {LEDGER} SET ts = %s, `row` = %s, held = %s"
        f" WHERE {OWN} AND bucket = %s AND epoch = %s",
        position.ts,
        position.row,
        _held(position),
        *feed.key,
        bucket,
        epoch,
    )
    if changed != 1:
        raise _fenced(feed, epoch, 0)


Choose = Callable[[Mapping[int, Position], Placement | None], Placement]


def recover(
    session: SinkSession, feed: FeedId, epoch: int, buckets: Iterable[int]
) -> dict[int, Position]:
    """:func:`take_over` with as many buckets as ``buckets`` needs, and nothing known of tables."""
    count = max(buckets) + 1
    return take_over(session, feed, epoch, lambda _, stored: stored or Placement(count))[1]


def take_over(
    session: SinkSession, feed: FeedId, epoch: int, choose: Choose
) -> tuple[Placement, dict[int, Position]]:
    """Fence every deliverer of another epoch or of an older incarnation, of which nothing stays.

    Returns the placement, and what is delivered by bucket.

    ``choose`` is given the positions and the placement that holds, None for a new changefeed, and
    returns the one that shall hold. All in one transaction, which locks the rows, so that positions
    are final when they are read. May be repeated. Raises FencedEpoch if the ledger has a newer
    epoch, or a newer incarnation.
    """
    with mapped(_NAME):
        session.run("BEGIN")
        try:
            newest, before = _locked(session, feed)
            if newest > (feed.incarnation, epoch):
                raise _fenced(feed, epoch, newest[1])
            remove(session, feed, "<")
            # A row of a bucket that is no longer used fences its old deliverer just as well.
            session.run(f"UPDATE {LEDGER} SET epoch = %s WHERE {OWN}", epoch, *feed.key)
            stored = _placement(session, feed)
            placement = choose(_delivered(before), stored)
            if placement != stored:
                session.run(
                    f"REPLACE INTO {PLACEMENT} VALUES (%s, %s, %s, %s)",
                    *feed.key,
                    placement.to_json(),
                )
            for bucket in set(range(placement.buckets)) - before.keys():
                session.run(
                    f"INSERT INTO {LEDGER} ({KEY}, bucket, epoch) VALUES (%s, %s, %s, %s, %s)"
                    " ON DUPLICATE KEY UPDATE epoch = %s",
                    *feed.key,
                    bucket,
                    epoch,
                    epoch,
                )
            _, after = _locked(session, feed)
            session.run("COMMIT")
        except BaseException:
            session.close()
            raise
    return placement, _delivered(after)


def is_known(session: SinkSession, feed: FeedId) -> bool:
    """Whether the changefeed's incarnation was ever taken over here."""
    with mapped(_NAME):
        return bool(session.rows(f"SELECT 1 AS x FROM {LEDGER} WHERE {OWN} LIMIT 1", *feed.key))


def positions(session: SinkSession, feed: FeedId) -> dict[int, Position]:
    """What is delivered, by bucket; waits for transactions that are being committed."""
    with mapped(_NAME):
        session.run("BEGIN")
        _, entries = _locked(session, feed)
        session.run("ROLLBACK")
    return _delivered(entries)


def delivered(session: SinkSession, feed: FeedId) -> dict[int, Position]:
    """What is delivered, by bucket, as it is committed now; waits for nobody, ``{}`` without."""
    if not _columns(session, "ledger"):
        return {}
    with mapped(_NAME):
        found = session.rows(
            f"SELECT bucket AS b, epoch AS e, ts AS t, `row` AS r, held AS h FROM {LEDGER}"
            f" WHERE {OWN}",
            *feed.key,
        )
    return _delivered({int(row["b"]): _entry(row) for row in found})


def older(session: SinkSession, feed: FeedId, epoch: int) -> list[tuple[FeedId, int, int]]:
    """(changefeed, bucket, epoch) of deliverers that ``epoch`` of ``feed`` replaces.

    Waits for nobody. PyMySQL's errors pass.
    """
    found = session.rows(
        f"SELECT incarnation AS i, bucket AS b, epoch AS e FROM {LEDGER}"
        " WHERE installation = %s AND changefeed = %s"
        " AND (incarnation < %s OR incarnation = %s AND epoch < %s)",
        feed.installation,
        feed.name,
        feed.incarnation,
        feed.incarnation,
        epoch,
    )
    return [
        (replace(feed, incarnation=int(row["i"])), int(row["b"]), int(row["e"])) for row in found
    ]


def forget(session: SinkSession, feed: FeedId, tables: tuple[str, ...] = _TABLES) -> None:
    """Remove a changefeed's rows of the incarnations up to this one, from tables of a ledger.

    Who still delivers, or carries out schema changes, finds none, and stops.
    """
    try:
        remove(session, feed, "<=", tables)
    except pymysql.err.Error as error:
        if number_of(error) not in _NO_TABLE:
            raise map_error(error, f"table {tables[0].replace('`', '')}") from None


def remove(
    session: SinkSession, feed: FeedId, which: str, tables: tuple[str, ...] = _TABLES
) -> None:
    """Remove a changefeed's rows of some incarnations: ``which`` compares theirs with this one."""
    for table in tables:
        session.run(
            f"DELETE FROM {table} WHERE installation = %s AND changefeed = %s"
            f" AND incarnation {which} %s",
            *feed.key,
        )


def feeds(session: SinkSession, name: str) -> frozenset[FeedId]:
    """All changefeeds of a name that have entries here, of any installation."""
    with mapped(_NAME):
        found = session.rows(
            f"SELECT installation AS i, incarnation AS n FROM {LEDGER} WHERE changefeed = %s"
            f" UNION SELECT installation, incarnation FROM {PLACEMENT} WHERE changefeed = %s",
            name,
            name,
        )
    return frozenset(FeedId(str(row["i"]), name, int(row["n"])) for row in found)


def _delivered(entries: Mapping[int, LedgerRow]) -> dict[int, Position]:
    return {b: e.position for b, e in entries.items() if e.position is not None}


def _placement(session: SinkSession, feed: FeedId) -> Placement | None:
    found = session.rows(f"SELECT placed AS p FROM {PLACEMENT} WHERE {OWN} FOR UPDATE", *feed.key)
    return Placement.from_json(str(found[0]["p"])) if found else None


def _locked(session: SinkSession, feed: FeedId) -> tuple[tuple[int, int], Mapping[int, LedgerRow]]:
    """Lock the rows of all incarnations; the newest (incarnation, epoch), and our own by bucket."""
    found = session.rows(
        "SELECT incarnation AS i, bucket AS b, epoch AS e, ts AS t, `row` AS r, held AS h"
        f" FROM {LEDGER} WHERE installation = %s AND changefeed = %s"
        " ORDER BY incarnation, bucket FOR UPDATE",
        feed.installation,
        feed.name,
    )
    newest = max(((int(row["i"]), int(row["e"])) for row in found), default=(0, 0))
    ours = (row for row in found if int(row["i"]) == feed.incarnation)
    return newest, {int(row["b"]): _entry(row) for row in ours}


def _held(position: Position) -> str | None:
    held = stand(position).to_json()
    return json.dumps(held, sort_keys=True) if held else None


def _entry(row: Mapping[str, Any]) -> LedgerRow:
    ts, at = row["t"], row["r"]
    held = json.loads(row["h"]) if row["h"] else None
    position = None if ts is None or at is None else Stand.from_json(int(ts), int(at), held)
    return LedgerRow(int(row["e"] or 0), position)


def _fenced(feed: FeedId, epoch: int, found: int) -> FencedEpoch:
    return FencedEpoch(
        f"our epoch is {epoch}, the ledger's is {found or 'gone'}",
        object=f"changefeed {feed}",
        hint="another server has taken over this changefeed, or it was removed",
    )
