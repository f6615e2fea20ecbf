"""When what the log has can be seen by a SELECT, and up to where one can have seen.

A dump gets a transaction once it is in the server's binlog, and the engine may commit it much later
(semi-synchronous servers wait for a replica in between). What tells where the binlog ends says
nothing about that, and neither do the positions made for backups: MySQL's ``log_status`` and, after
a rotation or a checkpoint event, MariaDB's ``Binlog_snapshot_position`` lie behind transactions
that no SELECT sees. So MySQL is asked for executed GTIDs, which the engine's commit comes before;
and elsewhere for the transactions that are just being carried out: those that were when the log had
the position must have ended, or have been seen doing something that a commit does not do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pymysql

from cdc.base.clock import Clock, SystemClock
from cdc.base.errors import TransientError
from cdc.binlog.gtid_set import GtidSet
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import query_error, rows, try_rows
from cdc.source.errors import UpstreamNotReady
from cdc.source.position import UpstreamPosition
from cdc.source.server_standing import gtids_owned
from cdc.source.snapshot import current_position

# InnoDB answers about its transactions from a copy that is up to 0.1 s old.
_STEP_S = 0.15
_NO_PROCESS = frozenset({1227})
# A session that sleeps is not committing. A detached XA transaction has no session of its own.
_AT_WORK = (
    "SELECT t.trx_id AS id, t.trx_rows_modified AS m, t.trx_rows_locked AS l, t.trx_state AS s"
    " FROM information_schema.innodb_trx AS t"
    " LEFT JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id"
    " WHERE t.trx_rows_modified > 0 AND t.trx_state <> 'LOCK WAIT' AND (p.command <> 'Sleep'"
    " OR (p.id IS NULL AND EXISTS (SELECT 1 FROM information_schema.processlist"
    " WHERE info LIKE 'XA COMMIT%')))"
)


class SnapshotNotVisible(TransientError):
    """What the log has cannot be seen by a SELECT of its server in time."""

    code = "TG:ErrSnapshotNotVisible"


def wait_until_visible(
    connection: Any,
    info: UpstreamInfo,
    position: UpstreamPosition,
    deadline_s: float = 60.0,
    *,
    clock: Clock | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Return when a SELECT that begins now sees every transaction up to ``position``.

    ``position`` is one that the log of this same server has reached; the transactions are InnoDB's.
    ``connection`` is in no transaction. Raises SnapshotNotVisible after ``deadline_s`` or when
    ``stop`` is set, UpstreamGone, and UpstreamNotReady where the right to see other sessions
    (PROCESS) is needed and not there: always but for MySQL with GTIDs.
    """
    waiting = Waiting(info, position, deadline_s, clock or SystemClock(), stop)
    try:
        if info.server_kind != "mariadb" and position.gtid is not None:
            _until_executed(connection, position.gtid, waiting)
        else:
            _until_in_binlog(connection, position, waiting)
            _until_ended(connection, waiting)
    except pymysql.err.MySQLError as error:
        raise _refused(error, info) from None


class Waiting:
    """One wait: its pauses, and the error at its end."""

    def __init__(
        self,
        info: UpstreamInfo,
        position: UpstreamPosition,
        deadline_s: float,
        clock: Clock,
        stop: threading.Event | None,
    ) -> None:
        self._info, self._position = info, position
        self._clock, self._stop = clock, stop or threading.Event()
        self._deadline_s = deadline_s
        self._end = clock.monotonic() + deadline_s

    def steps(self, why: str, first_s: float = 0.0) -> Iterator[None]:
        """One turn for each look; a first pause of ``first_s`` before the first."""
        pause = first_s
        while True:
            stopped = self._stop.wait(pause) if pause else self._stop.is_set()
            if stopped or self._clock.monotonic() > self._end:
                waited = "before it was stopped" if stopped else f"within {self._deadline_s:g} s"
                raise SnapshotNotVisible(
                    f"{why} {waited}",
                    object=f"upstream {self._info.name}",
                    position=str(self._position),
                    hint="see which transactions take long, and whether a semi-synchronous"
                    " replica answers",
                )
            yield
            pause = _STEP_S


def _until_executed(connection: Any, gtid: str, waiting: Waiting) -> None:
    for _ in waiting.steps("the server has not executed all of the log's transactions"):
        asked = "SELECT GTID_SUBSET(%s, @@global.gtid_executed) AS done"
        if rows(connection, asked, gtid)[0]["done"]:
            return


def _until_in_binlog(connection: Any, position: UpstreamPosition, waiting: Waiting) -> None:
    """Another server than the one that was pulled, or one that was reset, may never be there."""
    place = UpstreamPosition(position.file, position.pos)
    for _ in waiting.steps("the server's binlog has not come so far"):
        found = try_rows(connection, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
        status = found[0] if found else {}
        here = UpstreamPosition(str(status.get("file", "")), int(status.get("position", 4)))
        if here.covers(place, ""):
            return


def _until_ended(connection: Any, waiting: Waiting) -> None:
    left: dict[str, tuple[Any, ...]] | None = None
    for _ in waiting.steps("a transaction of the log has not ended", _STEP_S):
        found = {str(r["id"]): (r["m"], r["l"], r["s"]) for r in rows(connection, _AT_WORK)}
        # Who writes or locks on was not committing then.
        left = found if left is None else {k: v for k, v in left.items() if found.get(k) == v}
        if not left:
            return


def end_of_seen(connection: Any, kind: str) -> UpstreamPosition:
    """A position past everything that any SELECT before this has seen.

    The set of executed GTIDs is not: a transaction is seen a moment before it is in it. PyMySQL's
    errors pass through.
    """
    if kind == "mariadb":
        return current_position(connection, kind)
    # Asked first: who owns one no more has executed it by the next question.
    owned = gtids_owned(connection)
    end = current_position(connection, kind)
    if end.gtid is None or not owned:
        return end
    both = GtidSet.parse(end.gtid).union(GtidSet.parse(owned))
    return UpstreamPosition(end.file, end.pos, str(both), end.created, end.written_by)


def _refused(error: Any, info: UpstreamInfo) -> Exception:
    if error.args and error.args[0] in _NO_PROCESS:
        return UpstreamNotReady(
            str(error.args[1]),
            object=f"upstream {info.name}",
            hint="GRANT PROCESS ON *.* to the user, or turn GTIDs on where it is MySQL",
        )
    return query_error(error, f"upstream {info.name}")
