"""A stock replica follows a changefeed's binlog though its upstream goes from capture to capture.

The files lie where all captures have them, and whoever delivers serves them, at an address of its
own or one that goes along: here all captures have one.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from tests import servers
from tests.e2e.moving import Moving
from tests.e2e.test_failover import Load, captures_of
from tests.servers import Database
from tests.servers.etcd import Etcd
from tests.servers.process import free_port
from tests.sink_binlog.following import SECRET, follow, status_of
from tests.waiting import until

pytestmark = pytest.mark.real

ROWS = "SELECT id, v FROM t ORDER BY id"
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v INT)"


def test_a_replica_follows_from_capture_to_capture(
    etcd: Etcd, mariadb: Database, schema_name: str, tmp_path: Path
) -> None:
    mariadb.execute(f"CREATE DATABASE {schema_name}")
    mariadb.execute(TABLE, database=schema_name)
    root, port = tmp_path / "out", free_port()
    listen = f"listen=127.0.0.1:{port}&listen-user=repl&listen-password={quote(SECRET)}"
    moving = Moving(captures_of(etcd, tmp_path, schema_name), "main", "followed")
    first = moving.captures[0]
    load = Load(mariadb, schema_name)
    options = ["--server-id=77", "--skip-log-bin"]

    with servers.database("mariadb-11.4", options=options, gtid=False) as replica:
        replica.execute(f"CREATE DATABASE {schema_name}")
        replica.execute(TABLE, database=schema_name)

        def goes_on() -> None:
            known = len(replica.execute(ROWS, database=schema_name))

            def more() -> bool:
                status = status_of(replica)
                assert not status["Last_SQL_Error"], status
                assert not status["Last_IO_Errno"] or "retr" in status["Last_IO_Error"], status
                return len(replica.execute(ROWS, database=schema_name)) > known + 100

            until(more, "the replica has newer rows", 60)

        try:
            moving.start()
            first.register("main", mariadb.uri())
            first.create(
                "followed",
                "main",
                f"binlog://{root}?file-size=65536&listen-server-id=4711&{listen}",
                [f"{schema_name}.*"],
            )
            load.start()
            until(lambda: list(root.glob("binlog.0*")), "files")
            follow(replica, port, None)
            goes_on()
            moving.move()
            goes_on()
            left = moving.lose()
            goes_on()
            load.stop()
            left.wait_checkpoint("followed")
            wanted = mariadb.execute(ROWS, database=schema_name)
            until(
                lambda: replica.execute(ROWS, database=schema_name) == wanted,
                "the replica has all rows",
                60,
            )
            tables = f"SHOW TABLES FROM {schema_name}"
            assert replica.execute(tables) == mariadb.execute(tables)
            assert len(wanted) > 300
        finally:
            load.stop()
            for capture in moving.captures:
                capture.close()
