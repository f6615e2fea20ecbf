"""Options of database servers: quick to start, safe to kill, explicit about what matters."""

from __future__ import annotations

from tests.servers.install import Installed


def fast(server: Installed) -> list[str]:
    """Return options that make a throw-away server small and quick.

    ``innodb_flush_log_at_trx_commit=2`` and never 0: with 0 a killed server loses rows that
    its binlog holds.
    """
    chosen = [
        "--innodb-flush-log-at-trx-commit=2",
        "--sync-binlog=0",
        "--skip-name-resolve",
        "--innodb-buffer-pool-size=32M",
        "--innodb-use-native-aio=0",
        "--innodb-doublewrite=0",
        "--performance-schema=OFF",
        "--max-connections=100",
        "--table-open-cache=400",
    ]
    if server.kind == "mariadb":
        chosen += [
            "--innodb-log-file-size=16M",
            "--key-buffer-size=1M",
            "--aria-pagecache-buffer-size=8M",
            "--debug-no-sync",
        ]
    elif server.version >= (8, 0):
        chosen += ["--mysqlx=OFF", "--innodb-redo-log-capacity=16M", "--secure-file-priv="]
    if server.version < (8, 0):
        chosen += ["--explicit-defaults-for-timestamp=1"]
    return chosen


def replication(server: Installed, gtid: bool) -> list[str]:
    """Return options of a server that others replicate from: full row binlogs, GTIDs or none."""
    chosen = [
        "--server-id=1",
        "--log-bin=bin",
        "--binlog-format=ROW",
        "--binlog-row-image=FULL",
    ]
    if server.version >= ((8, 0) if server.kind == "mysql" else (10, 5)):
        chosen.append("--binlog-row-metadata=FULL")
    if server.kind == "mysql" and server.version >= (8, 0):
        chosen.append("--log-replica-updates")
    else:
        chosen.append("--log-slave-updates")
    if gtid and server.kind == "mysql":
        chosen += ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
    if gtid and server.kind == "mariadb":
        chosen.append("--gtid-strict-mode=ON")
    return chosen


def no_tls(server: Installed) -> list[str]:
    """Return what keeps MariaDB 11.4+ from making a key at every start (1 to 15 s)."""
    return ["--skip-ssl"] if server.kind == "mariadb" else []
