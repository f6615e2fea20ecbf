"""A real log into files, with a worker that dies at each step of a commit."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from cdc.changelog.files import write_at
from processor.acknowledged import Acknowledged
from processor.window_size import WindowSize
from sink.contract import Destination
from sink.file.ledger import FileLedger, Journal
from sink.file.names import rows_name
from sink.file.reader import files, messages, tables
from sink.file.worker import FileWorker
from tests.processor.dying import Dying, Forgetful
from tests.processor.in_process import InProcessJobs, Running, WorkerDied
from tests.servers import Database
from tests.source.pulling import Pulled

pytestmark = pytest.mark.real

SCHEMA = "files"
SIZE = 8 << 10


class Written:
    """A log with rows of three tables, and what they were at its end."""

    def __init__(self, folder: Path, db: Database) -> None:
        self.folder = folder
        db.execute(f"DROP DATABASE IF EXISTS {SCHEMA}", f"CREATE DATABASE {SCHEMA}")
        names = ("a", "b/c", "é.x")
        for name in names:
            db.execute(f"CREATE TABLE `{name}` (id INT PRIMARY KEY, v INT)", database=SCHEMA)
        chosen = random.Random(1)
        with Pulled(db, folder) as pulled:
            for i in range(1200):
                name = chosen.choice(names)
                db.execute(
                    f"INSERT INTO `{name}` VALUES ({4 * i}, 0), ({4 * i + 1}, 0)",
                    f"UPDATE `{name}` SET v = v + 1, id = id + IF(id % 4 = 1, 2, 0)"
                    f" WHERE id BETWEEN {4 * i - 40} AND {4 * i}",
                    f"DELETE FROM `{name}` WHERE id = {4 * i - 80}",
                    database=SCHEMA,
                )
            large = ", ".join(f"({10_000 + i}, {i})" for i in range(3000))
            db.execute(f"INSERT INTO a VALUES {large}", database=SCHEMA)
            pulled.caught_up()
        log, _ = pulled.runs()
        self.start_ts = log.state.first_ts
        log.close()
        self.rows = {
            f"{SCHEMA}.{name}": dict(db.execute(f"SELECT id, v FROM `{name}`", database=SCHEMA))
            for name in names
        }


@pytest.fixture(scope="module")
def written(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Return the log."""
    return Written(tmp_path_factory.mktemp("log") / "log", mariadb)


def _deliver(written: Written, root: Path, jobs: InProcessJobs, *, epoch: int = 1) -> None:
    uri = f"file://{root}?protocol=canal-json&enable-tidb-extension=true&flush-interval=0s"
    config = {"filter": {"rules": [f"{SCHEMA}.*"]}, "sink": {"file-size": SIZE}}
    running = Running(
        written.folder, uri, config, jobs, start_ts=written.start_ts, epoch=epoch,
        window_size=WindowSize(2 * SIZE, 2 * SIZE),
    )  # fmt: skip
    try:
        running.done()
    finally:
        running.stop()


class Repeated(AssertionError):
    """A row was there already, or was not there."""


def _folded(root: Path) -> dict[str, dict[int, int]]:
    """Tables as the files alone make them; nothing of ours but the order of names."""
    rows: dict[str, dict[int, int]] = defaultdict(dict)
    for folder in sorted(p for p in root.glob("*/*") if p.parent.name != ".tidegate"):
        before = 0
        for file in sorted(folder.glob("CDC*.json")):
            data = file.read_bytes()
            assert data.endswith(b"\r\n"), "a file is whole"
            for line in data.split(b"\r\n")[:-1]:
                message = json.loads(line)
                assert message["_tidb"]["commitTs"] >= before, "in the order of commits"
                before = message["_tidb"]["commitTs"]
                _fold(rows[f"{message['database']}.{message['table']}"], message)
    return dict(rows)


def _fold(table: dict[int, int], message: dict[str, Any]) -> None:
    (row,) = message["data"]
    new = int(row["id"]), int(row["v"])
    if message["type"] != "INSERT":
        old = row | message["old"][0] if message["type"] == "UPDATE" else row
        if table.pop(int(old["id"]), None) != int(old["v"]):
            raise Repeated(str(message))
    if message["type"] != "DELETE":
        if new[0] in table:
            raise Repeated(str(message))
        table[new[0]] = new[1]


def test_the_files_alone_give_the_rows(written: Written, tmp_path: Path) -> None:
    _deliver(written, tmp_path, InProcessJobs())
    assert _folded(tmp_path) == written.rows
    found = [p.relative_to(tmp_path).as_posix() for p in tables(tmp_path)]
    assert found == [f"{SCHEMA}/a", f"{SCHEMA}/b%2Fc", f"{SCHEMA}/é.x"]
    first, *others = files(tmp_path / found[0])
    assert len(others) > 5, "windows are small here"
    assert max(file.stat().st_size for file in others) < 2 * SIZE
    # Whoever has read the first file goes on behind it.
    whole = list(messages(tmp_path / found[0]))
    assert whole == [*first.read_bytes().splitlines(), *messages(first.parent, first.name)]
    # Again from the same checkpoint: the ledger knows that all of it is there.
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*/CDC*")}
    _deliver(written, tmp_path, InProcessJobs(), epoch=2)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*/CDC*")} == before


@pytest.mark.parametrize("before", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize(
    ("where", "name"),
    [(Journal, "append"), (FileLedger, "move"), (FileLedger, "check"), (FileWorker, "commit")],
    ids=["the line", "the move", "the look at the epoch", "the commit"],
)
def test_a_worker_dies(
    written: Written,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: type,
    name: str,
    before: bool,
) -> None:
    monkeypatch.setattr(FileWorker, "abort", lambda self: None)
    dying = Dying(where, name, before=before)
    dying.put(monkeypatch)
    _deliver(written, tmp_path, Forgetful())
    assert dying.deaths >= 3
    assert _folded(tmp_path) == written.rows


def test_without_the_ledger_rows_come_twice(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what the test above would see."""

    real = FileLedger._windows
    monkeypatch.setattr(FileLedger, "_windows", lambda self: ({}, real(self)[1]))
    monkeypatch.setattr(Acknowledged, "check", lambda self, positions: None)
    Dying(FileWorker, "commit", before=False).put(monkeypatch)
    # A window that is cut anew as it was makes files of the same names: then nothing would show.
    number = itertools.count()
    monkeypatch.setattr("sink.file.worker.rows_name", lambda at, _: rows_name(at, next(number)))
    _deliver(written, tmp_path, Forgetful())
    with pytest.raises(AssertionError):
        _folded(tmp_path)


@pytest.mark.parametrize("where", ["sink.file.worker.write_at", "sink.file.ledger.write_at"])
def test_a_full_disk_loses_nothing(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    full = itertools.count(1)

    def write_half(fd: int, data: memoryview, offset: int) -> None:
        if next(full) in (4, 5, 9):
            write_at(fd, data[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_at(fd, data, offset)

    monkeypatch.setattr(where, write_half)
    _deliver(written, tmp_path, InProcessJobs())
    assert next(full) > 9
    assert _folded(tmp_path) == written.rows


def test_a_zombie_adds_nothing(written: Written, tmp_path: Path) -> None:
    """A worker that hangs in its commit comes back when another has its place."""
    hung: list[tuple[FileWorker, dict[Destination, Any]]] = []
    real = FileWorker.commit

    def hang(self: FileWorker, ledger: dict[Destination, Any]) -> Any:
        if len(hung) < 3 and len(ledger) > 1:
            hung.append((self, ledger))
            raise WorkerDied
        return real(self, ledger)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileWorker, "abort", lambda self: None)
        patch.setattr(FileWorker, "commit", hang)
        _deliver(written, tmp_path, Forgetful())
    assert hung
    for worker, ledger in hung:
        with pytest.raises(Exception, match=r"epoch|No such file"):
            worker.commit(ledger)
    assert _folded(tmp_path) == written.rows
