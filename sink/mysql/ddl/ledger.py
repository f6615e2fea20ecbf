"""The ledger of schema changes: ``tidegate.ddl``, one row a change, in states of its own.

Rows belong to a changefeed's incarnation (``cdc.base.ids.FeedId``); that with ts 0 holds the epoch,
that with ts -1 the table that is being made for rows that were there before, that with ts -2 the
indexes that such tables get behind their rows.
Every step locks that row and compares, so whoever has written a newer epoch there has ended all
older ones. A connection that runs a change's statement holds the change's named lock
(:func:`lock_name`) from before the row says ``executing`` until it ends, so who has that lock knows
that nobody runs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, TypeVar

from cdc.base.ids import FeedId
from cdc.base.ts import Ts
from sink.errors import FencedEpoch
from sink.mysql import ledger
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.errors import MysqlLedgerInvalid
from sink.mysql.ledger import KEY, KEY_COLUMNS, OWN, SCHEMA, check_key
from sink.schema_change import Recorded, TableName

T = TypeVar("T")
TABLE = "`tidegate`.`ddl`"
_NAME = "table tidegate.ddl"
_CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
  {KEY_COLUMNS}
  `ts` bigint NOT NULL,
  `epoch` bigint NOT NULL,
  `state` varchar(16) CHARACTER SET ascii NOT NULL,
  `connection` bigint unsigned NULL,
  `server` varchar(255) CHARACTER SET utf8mb4 NULL,
  `sql` longtext CHARACTER SET utf8mb4 NULL,
  `witness` longtext CHARACTER SET utf8mb4 NULL,
  `begun` datetime(6) NULL,
  `ended` datetime(6) NULL,
  PRIMARY KEY ({KEY}, `ts`)
) ENGINE = InnoDB"""
_COLUMNS = frozenset(
    (
        "installation",
        "changefeed",
        "incarnation",
        "ts",
        "epoch",
        "state",
        "connection",
        "server",
        "sql",
        "witness",
        "begun",
    )
)
_EPOCH = "epoch"
# Of the table that is being made before rows come; no change is at such a ts.
_MAKING = "making"
_MAKING_TS = -1
_LATE = "late"
_LATE_TS = -2

LateKeys = Mapping[TableName, Sequence[str]]
"""Definitions of indexes, as CREATE TABLE has them, by table."""


@dataclass(frozen=True, slots=True)
class Record:
    """A row: ``witness`` is what the target showed of each table before the statement was sent."""

    state: Recorded
    epoch: int
    connection: int = 0
    witness: Mapping[str, Any] = field(default_factory=dict)


def digest(feed: FeedId) -> str:
    """A changefeed's id as 16 characters that any object may have in its own name."""
    return blake2b(feed.text.encode(), digest_size=8).hexdigest()


def lock_name(feed: FeedId, ts: Ts) -> str:
    """The named lock of one change, the same for all incarnations: an older one is waited for."""
    return f"tidegate:ddl:{digest(replace(feed, incarnation=0))}:{ts}"


def create(session: SinkSession) -> None:
    """Create schema and table where they are missing, and check the form."""
    with mapped(_NAME):
        if not session.rows("SHOW DATABASES LIKE %s", SCHEMA):
            session.run(f"CREATE DATABASE IF NOT EXISTS `{SCHEMA}`")
        if not _columns(session):
            session.run(_CREATE)
        check_key(session, "ddl")
        if not _columns(session) >= _COLUMNS:
            raise MysqlLedgerInvalid(
                "it has other columns than ours",
                object=_NAME,
                hint="rename it while no changefeed runs; it is created again",
            )


def _columns(session: SinkSession) -> frozenset[str]:
    found = session.rows(
        "SELECT column_name AS c FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = 'ddl'",
        SCHEMA,
    )
    return frozenset(str(r["c"]).lower() for r in found)


def take_over(session: SinkSession, feed: FeedId, epoch: int) -> dict[Ts, Record]:
    """Write the epoch; all records by ts, of older incarnations nothing stays.

    Raises FencedEpoch if there is a newer epoch or incarnation.
    """

    def step() -> dict[Ts, Record]:
        session.run(
            f"INSERT IGNORE INTO {TABLE} ({KEY}, ts, epoch, state) VALUES (%s, %s, %s, 0, 0, %s)",
            *feed.key,
            _EPOCH,
        )
        # Those of older incarnations are locked too: whoever is at a step of theirs is waited for.
        newest = max(_epochs(session, feed).items())
        if newest > (feed.incarnation, epoch):
            raise _fenced(feed, epoch, newest[1])
        ledger.remove(session, feed, "<", (TABLE,))
        session.run(f"UPDATE {TABLE} SET epoch = %s WHERE {OWN} AND ts = 0", epoch, *feed.key)
        return _records(session, feed)

    return _transaction(session, step)


def record(session: SinkSession, feed: FeedId, epoch: int, ts: Ts) -> Record | None:
    """The record of one change, None if there is none."""
    return _transaction(session, lambda: _own(session, feed, epoch, ts))


def begin(
    session: SinkSession,
    feed: FeedId,
    epoch: int,
    ts: Ts,
    *,
    connection: int,
    sql: str,
    witness: Any,
) -> None:
    """Record ``executing``; the statement may be sent when this has returned."""

    def step() -> None:
        _own(session, feed, epoch, ts)
        session.run(
            f"REPLACE INTO {TABLE} ({KEY}, ts, epoch, state, connection, server, `sql`,"
            " witness, begun) VALUES (%s, %s, %s, %s, %s, %s, %s,"
            " CONCAT(@@hostname, ':', @@port), %s, %s, UTC_TIMESTAMP(6))",
            *feed.key,
            ts,
            epoch,
            str(Recorded.EXECUTING),
            connection,
            sql,
            json.dumps(witness),
        )

    _transaction(session, step)


def end(
    session: SinkSession, feed: FeedId, epoch: int, ts: Ts, state: Recorded, sql: str = ""
) -> None:
    """Record ``done`` or ``skipped``; a record that has ended stays as it is."""

    def step() -> None:
        found = _own(session, feed, epoch, ts)
        if found is not None and found.state is not Recorded.EXECUTING:
            return
        session.run(
            f"INSERT INTO {TABLE} ({KEY}, ts, epoch, state, `sql`, ended)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, UTC_TIMESTAMP(6))"
            " ON DUPLICATE KEY UPDATE epoch = %s, state = %s, ended = UTC_TIMESTAMP(6)",
            *feed.key,
            ts,
            epoch,
            str(state),
            sql,
            epoch,
            str(state),
        )

    _transaction(session, step)


def begin_table(session: SinkSession, feed: FeedId, epoch: int, name: TableName) -> None:
    """Record that a table is made from now on; the one before it is complete."""
    _note(session, feed, epoch, _MAKING_TS, _MAKING, name)


def end_tables(session: SinkSession, feed: FeedId, epoch: int) -> None:
    """Record that all tables are complete."""
    _note(session, feed, epoch, _MAKING_TS, _MAKING, None)


def begun_table(session: SinkSession, feed: FeedId) -> TableName | None:
    """The table of which whoever made it may have died in the middle."""
    noted = _noted(session, feed, _MAKING_TS)
    if noted is None:
        return None
    schema, name = noted
    return schema, name


def put_late_keys(session: SinkSession, feed: FeedId, epoch: int, keys: LateKeys) -> None:
    """Record which indexes tables lack until their rows have come; none: nothing is due."""
    listed = [[*name, *texts] for name, texts in keys.items()]
    _note(session, feed, epoch, _LATE_TS, _LATE, listed or None)


def late_keys(session: SinkSession, feed: FeedId) -> dict[TableName, list[str]]:
    """What ``put_late_keys`` has recorded last."""
    listed = _noted(session, feed, _LATE_TS) or ()
    return {(schema, name): texts for schema, name, *texts in listed}


def check(session: SinkSession, feed: FeedId, epoch: int) -> None:
    """Raises FencedEpoch if somebody has taken the changefeed over."""
    in_epoch(session, feed, epoch, lambda: None)


def in_epoch(session: SinkSession, feed: FeedId, epoch: int, step: Callable[[], T]) -> T:
    """Take a step in a transaction during which nobody takes the changefeed over.

    Raises FencedEpoch if somebody has.
    """

    def fenced() -> T:
        _own(session, feed, epoch, 0)
        return step()

    return _transaction(session, fenced)


def forget_below(session: SinkSession, feed: FeedId, epoch: int, ts: Ts) -> None:
    """Remove records at or below ``ts`` that have ended."""

    def step() -> None:
        _own(session, feed, epoch, ts)
        session.run(
            f"DELETE FROM {TABLE} WHERE {OWN} AND ts > 0 AND ts <= %s AND state <> %s",
            *feed.key,
            ts,
            str(Recorded.EXECUTING),
        )

    _transaction(session, step)


def forget(session: SinkSession, feed: FeedId) -> None:
    """Remove the rows of a changefeed's incarnations up to this one."""
    ledger.forget(session, feed, (TABLE,))


def feeds(session: SinkSession, name: str) -> frozenset[FeedId]:
    """All changefeeds of a name that have entries here, of any installation."""
    with mapped(_NAME):
        found = session.rows(
            f"SELECT DISTINCT installation AS i, incarnation AS n FROM {TABLE}"
            " WHERE changefeed = %s",
            name,
        )
    return frozenset(FeedId(str(row["i"]), name, int(row["n"])) for row in found)


def _transaction(session: SinkSession, step: Callable[[], T]) -> T:
    with mapped(_NAME):
        session.run("BEGIN")
        try:
            result = step()
            session.run("COMMIT")
        except BaseException:
            session.close()
            raise
    return result


def _note(
    session: SinkSession, feed: FeedId, epoch: int, ts: Ts, state: str, value: Any | None
) -> None:
    """Keep a value in the row of a ts at which no change is; None removes it."""

    def step() -> None:
        if value is None:
            session.run(f"DELETE FROM {TABLE} WHERE {OWN} AND ts = %s", *feed.key, ts)
            return
        session.run(
            f"REPLACE INTO {TABLE} ({KEY}, ts, epoch, state, witness, begun)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, UTC_TIMESTAMP(6))",
            *feed.key,
            ts,
            epoch,
            state,
            json.dumps(value),
        )

    in_epoch(session, feed, epoch, step)


def _noted(session: SinkSession, feed: FeedId, ts: Ts) -> Any | None:
    with mapped(_NAME):
        found = session.rows(
            f"SELECT witness AS w FROM {TABLE} WHERE {OWN} AND ts = %s", *feed.key, ts
        )
    return json.loads(found[0]["w"]) if found else None


def _epochs(session: SinkSession, feed: FeedId) -> dict[int, int]:
    """Epochs of all incarnations; locks their rows."""
    found = session.rows(
        f"SELECT incarnation AS i, epoch AS e FROM {TABLE}"
        " WHERE installation = %s AND changefeed = %s AND ts = 0 FOR UPDATE",
        feed.installation,
        feed.name,
    )
    return {int(row["i"]): int(row["e"]) for row in found}


def _epoch(session: SinkSession, feed: FeedId) -> int:
    found = session.rows(
        f"SELECT epoch AS e FROM {TABLE} WHERE {OWN} AND ts = 0 FOR UPDATE", *feed.key
    )
    return int(found[0]["e"]) if found else 0


def _own(session: SinkSession, feed: FeedId, epoch: int, ts: Ts) -> Record | None:
    """Lock the epoch row, see that it is ours; the change's record."""
    found = _epoch(session, feed)
    if found != epoch:
        raise _fenced(feed, epoch, found)
    return _records(session, feed, ts).get(ts)


def _records(session: SinkSession, feed: FeedId, ts: Ts | None = None) -> dict[Ts, Record]:
    found = session.rows(
        f"SELECT ts AS t, epoch AS e, state AS s, connection AS c, witness AS w FROM {TABLE}"
        f" WHERE {OWN} AND ts > 0" + ("" if ts is None else " AND ts = %s"),
        *(feed.key if ts is None else (*feed.key, ts)),
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


def _fenced(feed: FeedId, epoch: int, found: int) -> FencedEpoch:
    return FencedEpoch(
        f"our epoch is {epoch}, that of the schema changes is {found or 'gone'}",
        object=f"changefeed {feed}",
        hint="another server has taken over this changefeed, or it was removed",
    )
