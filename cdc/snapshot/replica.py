"""A replica of an upstream that rows are read from in its place.

What it has is told by GTIDs, which mean the same on both: a SELECT sees what it has carried out,
and nothing beyond what it has received. One that has transactions that its primary has not (it was
written to, or promoted) would give rows that no log has, and is refused.
"""

from __future__ import annotations

import threading
from urllib.parse import quote, urlsplit, urlunsplit

import pymysql

from cdc.base.clock import SystemClock
from cdc.base.errors import DefiniteError
from cdc.binlog.gtid_set import GtidSet, MariadbGtidPosition
from cdc.coord.messages import UpstreamInfo
from cdc.snapshot.reading import SourceServer
from cdc.snapshot.visibility import Waiting, end_of_seen
from cdc.source.connection import open_connection, parse_uri, query_error, rows, try_rows
from cdc.source.errors import UpstreamNotReady
from cdc.source.position import UpstreamPosition
from cdc.source.readiness import server_kind
from cdc.source.server_standing import gtids_owned
from cdc.source.settings import SourceSettings

_DEADLINE_S = 60.0


class SnapshotReplicaUnfit(DefiniteError):
    """The server of ``snapshot.uri`` is no replica of the upstream from which rows can be read."""

    code = "TG:ErrSnapshotReplicaUnfit"


def replica_of(info: UpstreamInfo, uri: str) -> UpstreamInfo:
    """The upstream, reached at a replica; what ``uri`` does not say of the login is the upstream's.

    ``uri`` is one that :class:`cdc.coord.snapshot_config.SnapshotConfig` takes. Raises
    SnapshotReplicaUnfit, UpstreamUriInvalid.
    """
    if info.nodes:
        raise _unfit("the upstream has several nodes, and one replica is no replica of them", uri)
    known, parts = urlsplit(info.uri), urlsplit(uri)
    netloc = parts.netloc
    if not parts.username:
        netloc = f"{known.netloc.rpartition('@')[0]}@{netloc}"
    elif parts.password is None:
        secret = parse_uri(info.uri).password
        netloc = netloc.replace("@", f":{quote(secret, safe='')}@", 1) if secret else netloc
    query = parts.query or known.query
    asked = urlunsplit(parts._replace(netloc=netloc, query=query))
    parse_uri(asked)
    return info.model_copy(update={"uri": asked})


class ReplicaServer(SourceServer):
    """A :class:`SourceServer` whose rows are a replica's; it looks at the primary, too.

    Raises SnapshotReplicaUnfit beside what a server raises.
    """

    def __init__(
        self, info: UpstreamInfo, uri: str, settings: SourceSettings, stop: threading.Event
    ) -> None:
        super().__init__(replica_of(info, uri), settings, stop)
        self._shown = uri
        try:
            self._primary = open_connection(info, settings)
        except BaseException:
            super().close()
            raise
        try:
            self._check()
        except pymysql.err.MySQLError as error:
            self.close()
            raise self._failed(error) from None
        except BaseException:
            self.close()
            raise

    @property
    def tells_moments(self) -> bool:
        """It need not have a binlog of what it has carried out."""
        return False

    def close(self) -> None:
        """Give the connections back."""
        self._primary.close()
        super().close()

    def wait_until_visible(self, position: UpstreamPosition) -> None:
        """As of a :class:`SourceServer`: the replica has carried out all before it."""
        if position.gtid is None:
            raise _unfit("the upstream has no GTIDs, which mean the same on both", self._shown)
        if self.kind != "mariadb":
            super().wait_until_visible(position)
            return
        wanted = MariadbGtidPosition.parse(position.gtid)
        waiting = Waiting(self.info, position, _DEADLINE_S, SystemClock(), self._stop)
        try:
            for _ in waiting.steps("the replica has not carried out all of the log's transactions"):
                found = rows(self._connection, "SELECT @@global.gtid_slave_pos AS g")[0]["g"]
                done = MariadbGtidPosition.parse(str(found or ""))
                if all(done.reached(gtid) for gtid in wanted.domains.values()):
                    return
        except pymysql.err.MySQLError as error:
            raise self._failed(error) from None

    def end(self) -> UpstreamPosition:
        """As of a :class:`SourceServer`, in the primary's terms: up to where it has received.

        Raises SnapshotNotVisible where replication stands still for long, so that nobody knows.
        """
        try:
            if self.kind == "mariadb":
                return self._end_of_received()
            end = end_of_seen(self._connection, self.kind)
            self._check_known(str(end.gtid))
        except pymysql.err.MySQLError as error:
            raise self._failed(error) from None
        return end

    def _check(self) -> None:
        version = str(rows(self._connection, "SELECT @@version AS v")[0]["v"])
        if server_kind(version) != self.kind:
            raise _unfit(f"it is {version}, of another family than its upstream", self._shown)
        if self.kind == "mariadb":
            self._received()
            return
        mode = str(rows(self._connection, "SELECT @@gtid_mode AS m")[0]["m"])
        if mode != "ON":
            raise _unfit(f"its gtid_mode is {mode}", self._shown)
        if not try_rows(self._connection, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
            raise _unfit("it replicates from no server", self._shown)
        done = rows(self._connection, "SELECT @@global.gtid_executed AS g")[0]["g"]
        self._check_known(str(done or ""))

    def _check_known(self, executed: str) -> None:
        """Raises SnapshotReplicaUnfit for transactions of MySQL that its primary has not."""
        # Asked first: who owns one no more has executed it by the next question.
        owned = gtids_owned(self._primary)
        there = rows(self._primary, "SELECT @@global.gtid_executed AS g")[0]["g"]
        known = GtidSet.parse(str(there or "").replace("\n", "")).union(GtidSet.parse(owned))
        if not known.contains(GtidSet.parse(executed.replace("\n", ""))):
            raise _unfit("it has transactions that the upstream does not have", self._shown)

    def _end_of_received(self) -> UpstreamPosition:
        waiting = Waiting(self.info, UpstreamPosition(), _DEADLINE_S, SystemClock(), self._stop)
        for _ in waiting.steps("the replica receives nothing, so what it has is not known"):
            received = self._received()
            if received is not None:
                break
        return UpstreamPosition(gtid=received)

    def _received(self) -> str | None:
        """The GTIDs up to which a replica of MariaDB has received; None while it does not."""
        channels = rows(self._connection, "SHOW ALL SLAVES STATUS")
        if not channels:
            raise _unfit("it replicates from no server", self._shown)
        if any(channel["using_gtid"] == "No" for channel in channels):
            raise _unfit("it replicates by file and offset", self._shown)
        # A binlog of its own has what it was written itself.
        own = rows(self._connection, "SELECT @@server_id AS i, @@global.gtid_current_pos AS g")[0]
        written = MariadbGtidPosition.parse(str(own["g"] or "")).domains.values()
        if any(gtid.server_id == int(own["i"]) for gtid in written):
            raise _unfit("it has transactions of its own", self._shown)
        if any(channel["slave_io_running"] != "Yes" for channel in channels):
            return None
        return ",".join(str(c["gtid_io_pos"]) for c in channels if c["gtid_io_pos"])

    def _failed(self, error: pymysql.err.MySQLError) -> Exception:
        found = query_error(error, f"replica of upstream {self.info.name}")
        if isinstance(found, UpstreamNotReady):
            found.hint = "its user needs REPLICATION CLIENT (MariaDB: SLAVE MONITOR) there, too"
        return found


def _unfit(what: str, uri: str) -> SnapshotReplicaUnfit:
    return SnapshotReplicaUnfit(
        what,
        object=f"snapshot.uri {urlsplit(uri).hostname}",
        hint="name a replica that follows this upstream by GTID and is written to by nobody else,"
        " or leave snapshot.uri out",
    )
