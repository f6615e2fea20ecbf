"""Sync points at a target: ``tidegate.sync_points`` (``sink.sync_points.SyncPoints``).

A row says that the target was as the upstream at ``primary_ts`` when its own binlog stood at
``secondary_position``, its GTID set then. It is written under the lock of the epoch of schema
changes, which whoever takes the changefeed over changes before its rows come: so the position is
read while no row can come, or not at all.
"""

from __future__ import annotations

from cdc.base.ids import FeedId
from cdc.base.ts import Ts
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.ddl import ledger as ddl_ledger
from sink.mysql.ledger import KEY, KEY_COLUMNS, SCHEMA
from sink.mysql.settings import MysqlSettings

TABLE = "`tidegate`.`sync_points`"
_NAME = "table tidegate.sync_points"
_CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
  {KEY_COLUMNS}
  `primary_ts` bigint NOT NULL,
  `secondary_position` longtext CHARACTER SET ascii NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY ({KEY}, `primary_ts`),
  KEY `created_at` (`created_at`)
) ENGINE = InnoDB"""


class MysqlSyncPoints:
    """Those of one changefeed in one epoch; rows are kept for ``kept_s`` seconds."""

    def __init__(self, settings: MysqlSettings, feed: FeedId, epoch: int, kept_s: float) -> None:
        self._settings = settings
        self._feed = feed
        self._epoch = epoch
        self._kept_s = int(kept_s)

    def write(self, ts: Ts) -> None:
        """Write one down; see ``sink.sync_points``."""
        session = SinkSession(self._settings)
        try:
            with mapped(_NAME):
                # The statement would be in the target's binlog each time, also where it makes none.
                if not session.rows(f"SHOW TABLES FROM `{SCHEMA}` LIKE 'sync_points'"):
                    session.run(_CREATE)
            ddl_ledger.in_epoch(session, self._feed, self._epoch, lambda: self._write(session, ts))
        finally:
            session.close()

    def _write(self, session: SinkSession, ts: Ts) -> None:
        session.run(
            f"INSERT IGNORE INTO {TABLE} ({KEY}, primary_ts, secondary_position)"
            " VALUES (%s, %s, %s, %s, %s)",
            *self._feed.key,
            ts,
            _position(session),
        )
        session.run(
            f"DELETE FROM {TABLE} WHERE installation = %s AND changefeed = %s"
            " AND created_at < CURRENT_TIMESTAMP - INTERVAL %s SECOND",
            self._feed.installation,
            self._feed.name,
            self._kept_s,
        )


def _position(session: SinkSession) -> str:
    """The GTID set that the server's own binlog has; "" where it has none."""
    name = "gtid_binlog_pos" if session.target.mariadb else "gtid_executed"
    return str(session.rows(f"SELECT @@GLOBAL.{name} AS p")[0]["p"]).replace("\n", "")
