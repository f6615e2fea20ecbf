"""Which transactions a consistent snapshot of a server sees, told by their names.

MySQL: all that were executed before it began, and none that is neither executed nor owned by a
session behind that. Of one between the two nobody knows; it takes as long as three statements.
MariaDB takes the snapshot and the binlog's position of it under the lock that commits in order
(``LOCK_commit_ordered``), so ``Binlog_snapshot_position`` is exact where a group of commits has put
it there. An event of the binlog's own puts it behind transactions that are not committed yet
(``cdc.snapshot.visibility``), and an XA COMMIT is in the binlog before the engine has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cdc.base.position import TransactionName
from cdc.snapshot.visibility import end_of_seen
from cdc.source.connection import rows, try_rows
from cdc.source.gtids import gtid_text
from cdc.source.position import UpstreamPosition
from cdc.source.snapshot import current_position

_BEGIN = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)
# What a group of commits ends with in a binlog of MariaDB.
_ENDS = frozenset({"Xid", "Query", "XA_prepare"})
# So many a server logs in a second or two.
_MOST_EVENTS = 50_000


class ShownEvent(NamedTuple):
    """An event of a binlog as its server shows it; ``end`` is the offset behind it, or 0.

    Within a group of events some versions do not say it.
    """

    type: str
    info: str
    end: int


@dataclass(frozen=True)
class Moment:
    """What one snapshot sees: all before ``least``, if that is known, and nothing behind ``most``.

    ``kind``: ``mysql`` or ``mariadb``. ``unsure``: GTIDs before ``least`` that it need not see.
    """

    kind: str
    least: UpstreamPosition | None
    most: UpstreamPosition
    unsure: frozenset[str] = frozenset()

    def sees(self, name: TransactionName) -> bool | None:
        """Whether it sees a transaction of its server; None where it may and may not."""
        if not self.most.passed(name, self.kind):
            return False
        if self.least is None or not self.least.passed(name, self.kind):
            return None
        return None if gtid_text(self.kind, name) in self.unsure else True


def begin(connection: Any) -> None:
    """Begin a transaction that sees one moment, of which nothing is said."""
    with connection.cursor() as cursor:
        for statement in _BEGIN:
            cursor.execute(statement)


def begin_known(connection: Any, kind: str, since: UpstreamPosition) -> Moment:
    """Begin a transaction that sees one moment, and say which.

    ``since``: an end of this server's binlog of a while ago, which ``wait_until_visible`` was asked
    behind. PyMySQL's errors pass through.
    """
    if kind == "mariadb":
        begin(connection)
        return _of_mariadb(connection, since)
    done = rows(connection, "SELECT @@global.gtid_executed AS g, @@gtid_mode AS m")[0]
    begin(connection)
    executed = str(done["g"]).replace("\n", "")
    least = UpstreamPosition(gtid=executed) if done["m"] == "ON" else None
    return Moment(kind, least, end_of_seen(connection, kind))


def _of_mariadb(connection: Any, since: UpstreamPosition) -> Moment:
    shown = rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
    status = {str(row["variable_name"]).lower(): str(row["value"]) for row in shown}
    file, pos = status["binlog_snapshot_file"], int(status["binlog_snapshot_position"])
    at = rows(connection, "SELECT BINLOG_GTID_POS(%s, %s) AS g", file, pos)[0]["g"]
    if at is None:
        return Moment("mariadb", None, current_position(connection, "mariadb"))
    seen = UpstreamPosition(file, pos, str(at))
    return known(since, seen, _events(connection, since, seen))


def _events(connection: Any, since: UpstreamPosition, seen: UpstreamPosition) -> list[ShownEvent]:
    """What lies in the binlog between two positions in one file; at least its begin."""
    if since.file != seen.file:
        return []
    shown = f"SHOW BINLOG EVENTS IN '{seen.file}' FROM {since.pos} LIMIT {_MOST_EVENTS}"
    events = try_rows(connection, shown) or []
    ours = (e for e in events if int(e["pos"]) < seen.pos)
    return [ShownEvent(str(e["event_type"]), str(e["info"]), int(e["end_log_pos"])) for e in ours]


def known(since: UpstreamPosition, seen: UpstreamPosition, events: Sequence[ShownEvent]) -> Moment:
    """What is sure of a snapshot of MariaDB that has its position, by the events since another."""
    if since.file == seen.file and since.pos >= seen.pos:
        # It was waited for, and nothing was committed since.
        return Moment("mariadb", since, since)
    if not events or events[-1].end != seen.pos or events[-1].type not in _ENDS:
        return Moment("mariadb", None, seen)
    gtid, unsure = "", set[str]()
    for event in events:
        if event.type == "Gtid":
            gtid = event.info.partition("GTID ")[2].partition(" ")[0]
        elif event.info.startswith("XA COMMIT"):
            unsure.add(gtid)
    return Moment("mariadb", seen, seen, frozenset(unsure))
