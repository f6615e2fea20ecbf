"""The binlog files of a changefeed give the upstream, although the capture is killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pymysql
import pytest
from pymysql.constants import ER

from tests.consumer.same import facts
from tests.e2e.conftest import Way
from tests.servers.process import free_port
from tests.sink_binlog.replay import files_of, replay
from tests.waiting import until

pytestmark = pytest.mark.real

TABLES = (
    "CREATE TABLE account (id INT PRIMARY KEY, cents BIGINT)",
    "CREATE TABLE entry (id INT PRIMARY KEY AUTO_INCREMENT, account INT, cents INT,"
    " FOREIGN KEY (account) REFERENCES account (id))",
    "INSERT INTO account VALUES (1, 0), (2, 0), (3, 0)",
)
CHANGES = (
    "ALTER TABLE account ADD COLUMN note VARCHAR(20) DEFAULT 'é' AFTER id",
    "CREATE TABLE later (id INT PRIMARY KEY, v INT DEFAULT 3)",
    "INSERT INTO later VALUES (1, 1), (2, 2)",
    "RENAME TABLE later TO renamed",
    "CREATE TABLE chosen (PRIMARY KEY (id)) AS SELECT id, cents FROM account",
    "DROP TABLE renamed",
)


def _transfers(way: Way, stop: threading.Event) -> None:
    with way.database.connect(database=way.schema) as connection:
        i = 0
        while not stop.wait(0.01):
            i += 1
            with connection.cursor() as cursor:
                connection.begin()
                for account, cents in ((1 + i % 3, i), (1 + (i + 1) % 3, -i)):
                    cursor.execute(
                        f"UPDATE account SET cents = cents + {cents} WHERE id = {account}"
                    )
                    cursor.execute(
                        f"INSERT INTO entry (account, cents) VALUES ({account}, {cents})"
                    )
                connection.commit()


def _done(way: Way, change: str) -> bool:
    """Run a statement; False if it has met others in a deadlock, and has done nothing."""
    try:
        way.execute(change)
    except pymysql.err.OperationalError as error:
        if error.args[0] != ER.LOCK_DEADLOCK:
            raise
        return False
    return True


def _served(port: int) -> list[str] | None:
    """Return which files a replica is offered; None if nobody serves."""
    try:
        with (
            pymysql.connect(
                host="127.0.0.1", port=port, user="replica", password="pw", ssl_disabled=True
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SHOW BINARY LOGS")
            return [str(row[0]) for row in cursor.fetchall()]
    except pymysql.err.OperationalError:
        return None


def _wait_for_files(root: Path, count: int) -> None:
    until(lambda: len(list(root.glob("binlog.0*"))) >= count, f"{count} files", 60)


def test_another_configuration_counts_from_one_transaction_on(way: Way, tmp_path: Path) -> None:
    """Each has a row of three tables, and is in the files by the old rules or by the new ones."""
    root = tmp_path / "out"
    tables = ("kept", "gone", "come")
    made = [f"CREATE TABLE {table} (id INT PRIMARY KEY)" for table in tables]
    way.execute(*made)
    way.create("kept", "gone", sink=f"binlog://{root}?file-size=65536")
    with way.written(*tables) as ids:
        until(lambda: len(ids) > 20, "transactions under the old configuration")
        way.delivered()
        rules = [f"{way.schema}.kept", f"{way.schema}.come"]
        asked = {
            "replica_config": {"filter": {"rules": rules}},
            "sink_uri": f"binlog://{root}?file-size=131072",
        }
        assert way.capture.ask("PUT", f"/changefeeds/{way.name}", asked)["change"] is not None
        way.capture.kill()
        way.capture.start()
        until(lambda: way.capture.feed(way.name)["change"] is None, "it counts")
        known = len(ids)
        until(lambda: len(ids) > known + 20, "transactions under the new configuration")
    way.delivered()
    # What the files do to the upstream would else come into the files.
    way.capture.ask("POST", f"/changefeeds/{way.name}/pause")

    way.database.execute(f"DROP DATABASE {way.schema}", f"CREATE DATABASE {way.schema}")
    way.execute(*made)
    replay(way.database, files_of(root))
    found = {t: [row[0] for row in way.execute(f"SELECT id FROM {t} ORDER BY id")] for t in tables}
    first = len(found["gone"])
    assert 20 < first < known
    assert found == {"kept": ids, "gone": ids[:first], "come": ids[first:]}


def test_the_files_give_the_upstream_although_the_capture_is_killed(
    way: Way, tmp_path: Path
) -> None:
    root = tmp_path / "out"
    port = free_port()
    listen = f"listen=127.0.0.1:{port}&listen-password=pw&listen-server-id=4711"
    way.create(sink=f"binlog://{root}?file-size=65536&{listen}")
    way.execute(*TABLES)
    stop = threading.Event()
    writing = threading.Thread(target=_transfers, args=(way, stop))
    writing.start()
    try:
        _wait_for_files(root, 2)
        for change in CHANGES:
            # AS SELECT locks the rows that it reads, and the load may have come first.
            while not _done(way, change):
                pass
        way.capture.kill()
        way.capture.start()
        _wait_for_files(root, 3 + len(list(root.glob("binlog.0*"))))
    finally:
        stop.set()
        writing.join()
    way.delivered()
    # The capture that was started again serves them; who pauses the changefeed ends that.
    until(lambda: _served(port) == [file.name for file in files_of(root)], "all are served")
    way.capture.api("POST", f"/changefeeds/{way.name}/pause")
    until(lambda: _served(port) is None, "none is served")
    # What the files do to the upstream would else come into the files.
    way.capture.kill()

    wanted = facts(way.database, way.schema)
    way.database.execute(f"DROP DATABASE {way.schema}", f"CREATE DATABASE {way.schema}")
    replay(way.database, files_of(root))
    assert facts(way.database, way.schema) == wanted
    assert len(wanted["rows of entry"]) > 100
