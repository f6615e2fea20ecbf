"""Where the MySQL sink is measured: one upstream, our target and the peer's, all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pymysql.constants import ER
from pymysql.cursors import Cursor
from pymysql.err import ProgrammingError

from bench import load, replica
from bench.replica import Replica
from tests.servers import database, fetch
from tests.servers.database import Database

# The same for all three. A killed server loses nothing, a machine without power would.
DURABILITY = "innodb_flush_log_at_trx_commit=2, sync_binlog=0, binlog on"
_OPTIONS = (
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
    "--max-allowed-packet=64M",
    "--innodb-buffer-pool-size=512M",
)
_LOG = {"mariadb": "--innodb-log-file-size=512M", "mysql": "--innodb-redo-log-capacity=512M"}
# Rows at the end of each load, enough to be in every bucket: when all are there, all is there.
_MARKS, _FIRST_MARK, _MARK_STEP = 64, 2_000_000_000, 1 << 12
_POLL_S = 0.005
_CHECK_S = 30.0


@dataclass(frozen=True)
class Arena:
    """The servers, with the empty table; ``peer`` is None where it is not wanted."""

    upstream: Database
    target: Database
    peer: Replica | None


@contextmanager
def arena(name: str, *, peers: bool = True) -> Iterator[Arena]:
    """Start the servers, each in a folder of its own; the peer follows from the beginning."""
    installed = fetch(name)
    kind, version = installed.kind, installed.version
    options = [*_OPTIONS, _LOG[kind]]
    with ExitStack() as stack:

        def start(number: int, *more: str) -> Database:
            return stack.enter_context(
                database(name, options=[*options, f"--server-id={number}", *more])
            )

        upstream = start(1, *replica.upstream_options(kind, version))
        upstream.execute(*load.CREATE)
        target = start(2)
        target.execute(*load.CREATE)
        peer = None
        if peers:
            peer = Replica(upstream, start(3, *replica.replica_options(kind, version)))
        yield Arena(upstream, target, peer)


def marks() -> Iterator[str]:
    """Statements of the last transaction of a load; its keys are far from each other."""
    rows = ",".join(load.row(_FIRST_MARK + n * _MARK_STEP) for n in range(_MARKS))
    yield "BEGIN"
    yield load.INSERT + rows
    yield "COMMIT"


def wait_marks(server: Database, check: Callable[[], None], timeout_s: float = 600.0) -> float:
    """Wait until a load's last transaction is there; ``time.monotonic()`` of that moment.

    Each connection that writes does so in commit order, and the marks go over all of them.
    """
    began = checked = time.monotonic()
    with server.connect() as connection, connection.cursor() as cursor:
        while True:
            found = _marks_at(cursor)
            now = time.monotonic()
            if found == _MARKS:
                return now
            if now - checked > _CHECK_S:
                check()
                checked = now
            if now - began > timeout_s:
                raise TimeoutError(f"{server.name}: the load is not there in {timeout_s:.0f} s")
            time.sleep(_POLL_S)


def _marks_at(cursor: Cursor) -> int:
    try:
        cursor.execute(f"SELECT COUNT(*) FROM {load.SCHEMA}.{load.TABLE} WHERE id >= {_FIRST_MARK}")
    except ProgrammingError as error:
        if error.args[0] != ER.NO_SUCH_TABLE:
            raise
        # The table's own CREATE is still on its way.
        return 0
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])


def digest(server: Database) -> tuple[int, ...]:
    """Count and checksum of the table's rows."""
    columns = server.execute(
        f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{load.SCHEMA}'"
        f" AND table_name = '{load.TABLE}' ORDER BY ordinal_position"
    )
    row = ", ".join(f"HEX(`{name}`)" for (name,) in columns)
    ((count, total),) = server.execute(
        "SET SESSION time_zone = '+00:00'",
        f"SELECT COUNT(*), SUM(CRC32(CONCAT_WS(',', {row}))) FROM {load.SCHEMA}.{load.TABLE}",
    )
    return int(count), int(total or 0)
