"""The peer of the MySQL sink: the target server's own replica with four appliers, best mode.

MariaDB: ``slave_parallel_mode=optimistic`` with queues that hold whole transactions. MySQL: the
logical clock, with dependencies by write set where the upstream's version has them, and commits in
any order. Both replicate by GTID and write a binlog, as our target does.
"""

from __future__ import annotations

from bench.gate import Gate
from tests.servers.database import Database

WORKERS = 4
_MARIADB = (
    f"--slave-parallel-threads={WORKERS}",
    "--slave-parallel-mode=optimistic",
    "--slave-parallel-max-queued=16777216",
)
_MYSQL = (f"--replica-parallel-workers={WORKERS}", "--replica-preserve-commit-order=OFF")
# From 8.4 on there is nothing else than these, and no longer an option.
_ALWAYS = (8, 4)


def upstream_options(kind: str, version: tuple[int, ...]) -> list[str]:
    """What a server needs so that its replica can apply in parallel as well as it is able to."""
    if kind == "mysql" and version < _ALWAYS:
        return ["--binlog-transaction-dependency-tracking=WRITESET"]
    return []


def replica_options(kind: str, version: tuple[int, ...]) -> list[str]:
    """What the replica itself is started with."""
    if kind == "mariadb":
        return [*_MARIADB, "--relay-log=relay", "--skip-slave-start"]
    clock = ["--replica-parallel-type=LOGICAL_CLOCK"] if version < _ALWAYS else []
    return [*_MYSQL, *clock, "--relay-log=relay", "--skip-replica-start"]


def title(kind: str, name: str) -> str:
    """How the peer is called in figures."""
    mode = "optimistic" if kind == "mariadb" else "logical clock, write sets"
    return f"{name} replica, {WORKERS} appliers, {mode}"


class Replica:
    """A server that replicates from ``upstream`` while it is started."""

    def __init__(self, upstream: Database, database: Database) -> None:
        self.upstream, self.database = upstream, database
        self._mariadb = database.kind == "mariadb"
        self._gate = Gate(upstream, "replica")
        self._gate.create()
        name = "MASTER" if self._mariadb else "SOURCE"
        place = (
            f"{name}_HOST = '127.0.0.1', {name}_PORT = {upstream.port},"
            f" {name}_USER = '{self._gate.user}', {name}_PASSWORD = '{self._gate.password}',"
            f" {name}_CONNECT_RETRY = 1"
        )
        database.execute(
            f"CHANGE MASTER TO {place}, MASTER_USE_GTID = slave_pos, MASTER_SSL = 0"
            if self._mariadb
            else f"CHANGE REPLICATION SOURCE TO {place}, SOURCE_AUTO_POSITION = 1,"
            " GET_SOURCE_PUBLIC_KEY = 1"
        )

    def start(self) -> float:
        """Start; ``time.monotonic()`` when the upstream began to send."""
        self.database.execute("START SLAVE" if self._mariadb else "START REPLICA")
        return self._gate.streaming()

    def stop(self) -> None:
        """Stop, with what has been received applied or forgotten."""
        self.database.execute("STOP SLAVE" if self._mariadb else "STOP REPLICA")

    def check(self) -> None:
        """Raise if replication has stopped by itself."""
        import pymysql.cursors

        statement = "SHOW SLAVE STATUS" if self._mariadb else "SHOW REPLICA STATUS"
        with self.database.connect(cursorclass=pymysql.cursors.DictCursor) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            status = cursor.fetchone()
        wrong = [status[n] for n in ("Last_IO_Error", "Last_SQL_Error") if status and status[n]]
        if wrong:
            raise RuntimeError(f"the replica has stopped: {'; '.join(wrong)}")
