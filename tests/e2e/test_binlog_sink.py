"""The binlog files of a changefeed give the upstream, although the capture is killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.consumer.same import facts
from tests.e2e.capture_process import until
from tests.e2e.conftest import Way
from tests.sink_binlog.replay import files_of, replay

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


def _wait_for_files(root: Path, count: int) -> None:
    until(lambda: len(list(root.glob("binlog.0*"))) >= count, f"{count} files", 60)


def test_the_files_give_the_upstream_although_the_capture_is_killed(
    way: Way, tmp_path: Path
) -> None:
    root = tmp_path / "out"
    way.create(sink=f"binlog://{root}?file-size=65536")
    way.execute(*TABLES)
    stop = threading.Event()
    writing = threading.Thread(target=_transfers, args=(way, stop))
    writing.start()
    try:
        _wait_for_files(root, 2)
        way.execute(*CHANGES)
        way.capture.kill()
        way.capture.start()
        _wait_for_files(root, 3 + len(list(root.glob("binlog.0*"))))
    finally:
        stop.set()
        writing.join()
    way.delivered()
    # What the files do to the upstream would else come into the files.
    way.capture.kill()

    wanted = facts(way.database, way.schema)
    way.database.execute(f"DROP DATABASE {way.schema}", f"CREATE DATABASE {way.schema}")
    replay(way.database, files_of(root))
    assert facts(way.database, way.schema) == wanted
    assert len(wanted["rows of entry"]) > 100
