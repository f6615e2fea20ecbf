"""The files of a changefeed are enough: a consumer rebuilds the upstream's schema and rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sink.file.reader import messages, tables
from tests.consumer.canal_rebuild import ByWatermark, Target
from tests.consumer.same import assert_same
from tests.e2e.conftest import Way
from tests.servers import Database
from tests.waiting import until

pytestmark = pytest.mark.real

TABLES = (
    "CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(20)) CHARSET utf8mb4",
    "CREATE TABLE kinds (id INT PRIMARY KEY, d DECIMAL(9,2), b BLOB, t TIMESTAMP NULL, j JSON)",
    "CREATE TABLE `odd/é.name` (id INT PRIMARY KEY, v INT)",
)
CHANGES = (
    "ALTER TABLE plain ADD COLUMN w BIGINT UNSIGNED DEFAULT 7 AFTER id",
    "CREATE TABLE later (id INT PRIMARY KEY, v INT DEFAULT 3)",
    "INSERT INTO later VALUES (1, 1), (2, 2), (3, 3)",
    "RENAME TABLE later TO renamed",
    "UPDATE renamed SET v = v + 10 WHERE id < 3",
    "TRUNCATE TABLE `odd/é.name`",
    "INSERT INTO `odd/é.name` VALUES (1000000, 1)",
    "ALTER TABLE kinds DROP COLUMN j, ADD KEY (d)",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "INSERT INTO gone VALUES (1)",
    "DROP TABLE gone",
)


def _rows(way: Way, stop: threading.Event) -> None:
    i = 0
    while not stop.wait(0.002):
        i += 1
        way.execute(
            f"INSERT INTO plain (id, v) VALUES ({i}, 'é{i}')",
            f"INSERT INTO `odd/é.name` VALUES ({i}, {i})",
            f"INSERT INTO kinds (id, d, b) VALUES ({i}, {i}.25, x'00ff{i % 10}0')",
            f"UPDATE plain SET v = CONCAT(v, '!'), id = -id WHERE id = {i - 5}",
            f"DELETE FROM kinds WHERE id = {i - 9}",
        )


def _wait_for_files(root: Path, count: int) -> None:
    until(lambda: len(list(root.glob("*/*/CDC*.json"))) >= count, f"{count} files", 60)


def test_the_files_give_the_upstream_although_the_capture_is_killed(
    way: Way, tmp_path: Path, database: Callable[..., Database]
) -> None:
    root = tmp_path / "out"
    options = "protocol=canal-json&enable-tidb-extension=true&flush-interval=100ms&file-size=16384"
    way.create(sink=f"file://{root}?{options}")
    way.execute(*TABLES)
    stop = threading.Event()
    writing = threading.Thread(target=_rows, args=(way, stop))
    writing.start()
    try:
        for number in range(2):
            _wait_for_files(root, 20 * (number + 1))
            way.execute(*CHANGES[6 * number : 6 * number + 6])
            way.capture.kill()
            way.capture.start()
    finally:
        stop.set()
        writing.join()
    way.delivered()

    target = database("mariadb-11.4", options=["--max-connections=99"])
    target.execute(f"DROP DATABASE IF EXISTS {way.schema}", f"CREATE DATABASE {way.schema}")
    folders = list(tables(root))
    with target.connect() as connection:
        consumer = ByWatermark(len(folders), Target(connection))
        for number, folder in enumerate(folders):
            for message in messages(folder):
                consumer.add(number, message)
            consumer.end(number)
        consumer.advance()
        connection.commit()
    assert consumer.waiting == 0
    assert consumer.applied > 500
    assert_same(way.database, target, way.schema)
