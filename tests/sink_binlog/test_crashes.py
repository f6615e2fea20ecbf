"""Workers and owners that die at any step leave the very files of an undisturbed run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from cdc.base.errors import TidegateError
from cdc.binlog.events import ROWS, EventType
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH
from cdc.binlog.reader import BinlogReader
from cdc.changelog.files import write_at
from processor.acknowledged import Acknowledged
from sink.binlog.ledger import StreamLedger
from sink.binlog.worker import BinlogWorker
from sink.contract import Destination
from sink.file.ledger import Journal
from tests.processor.dying import Dying, Forgetful
from tests.processor.in_process import InProcessJobs, WorkerDied
from tests.servers import Database
from tests.sink_binlog.replay import deliver, files_of
from tests.sink_binlog.written import RULES, Written

pytestmark = pytest.mark.real

_SIZE = 65536


@pytest.fixture(scope="module")
def written(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Return the log."""
    return Written(mariadb, tmp_path_factory.mktemp("log") / "log")


@pytest.fixture(scope="module")
def wanted(written: Written, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """Return the files of an undisturbed run, of one window between changes."""
    root = tmp_path_factory.mktemp("wanted")
    _deliver(written, root, InProcessJobs(), window=64 << 20)
    return _files(root)


def _deliver(
    written: Written, root: Path, jobs: InProcessJobs, *, window: int = 16 << 10, **more: Any
) -> None:
    uri = f"binlog://{root}?file-size={_SIZE}"
    deliver(written.folder, uri, RULES, written.start_ts, jobs=jobs, window=window, **more)


def _files(root: Path) -> dict[str, list[bytes]]:
    """Return all events, but for the numbers that tables have: each worker gives its own."""
    found: dict[str, list[bytes]] = {}
    for file in files_of(root):
        events = found[file.name] = []
        for event in BinlogReader(file):
            data = bytearray(event.data[:-CHECKSUM_LENGTH])
            if event.type in ROWS or event.type is EventType.TABLE_MAP:
                data[HEADER_LENGTH : HEADER_LENGTH + 6] = bytes(6)
            events.append(bytes(data))
    return found


@pytest.fixture
def unclean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return a patch under which nobody who dies removes anything."""
    monkeypatch.setattr(BinlogWorker, "abort", lambda self: None)
    return monkeypatch


def _tear(patch: pytest.MonkeyPatch, where: str, every: int) -> list[int]:
    """Have each so-many-th write to files end in its middle; the list counts."""
    calls = [0, 0]

    def write_half(fd: int, data: memoryview, offset: int) -> None:
        calls[0] += 1
        if calls[0] % every == 0 and calls[1] < 9:
            calls[1] += 1
            write_at(fd, data[: len(data) // 2], offset)
            raise WorkerDied
        write_at(fd, data, offset)

    patch.setattr(where, write_half)
    return calls


@pytest.mark.parametrize("before", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize(
    ("where", "name"),
    [(Journal, "append"), (StreamLedger, "place"), (StreamLedger, "check")],
    ids=["the line", "the move", "the look at the epoch"],
)
def test_whoever_dies_at_a_step(
    written: Written, wanted: dict[str, list[bytes]], tmp_path: Path, unclean: pytest.MonkeyPatch,
    where: type, name: str, before: bool,
) -> None:  # fmt: skip
    dying = Dying(where, name, before=before)
    dying.put(unclean)
    _deliver(written, tmp_path, Forgetful())
    assert dying.deaths >= 3
    assert _files(tmp_path) == wanted


@pytest.mark.parametrize(("where", "every"), [("writer", 4), ("ledger", 3)])
def test_a_torn_file_is_completed(
    written: Written, wanted: dict[str, list[bytes]], tmp_path: Path, unclean: pytest.MonkeyPatch,
    where: str, every: int,
) -> None:  # fmt: skip
    calls = _tear(unclean, f"sink.binlog.{where}.write_at", every)
    _deliver(written, tmp_path, Forgetful())
    assert calls[1] >= 3
    assert _files(tmp_path) == wanted


def test_without_the_completion_files_are_torn(
    written: Written, wanted: dict[str, list[bytes]], tmp_path: Path, unclean: pytest.MonkeyPatch
) -> None:
    """The control: what the test above would see."""
    _tear(unclean, "sink.binlog.ledger.write_at", 3)
    unclean.setattr("sink.binlog.ledger._pieces", lambda counted: [])
    try:
        _deliver(written, tmp_path, Forgetful())
        same = _files(tmp_path) == wanted
    except (AssertionError, TidegateError):
        same = False
    assert not same


def test_without_the_ledger_transactions_come_twice(
    written: Written, wanted: dict[str, list[bytes]], tmp_path: Path, unclean: pytest.MonkeyPatch
) -> None:
    """The control of the positions."""
    real = StreamLedger.begin
    unclean.setattr(StreamLedger, "begin", lambda self, epoch: (real(self, epoch), {})[1])
    unclean.setattr(Acknowledged, "check", lambda self, positions: None)
    Dying(BinlogWorker, "commit", before=False).put(unclean)
    _deliver(written, tmp_path, Forgetful())
    assert sum(map(len, _files(tmp_path).values())) > sum(map(len, wanted.values()))


def test_a_zombie_adds_nothing(
    written: Written, wanted: dict[str, list[bytes]], tmp_path: Path, unclean: pytest.MonkeyPatch
) -> None:
    """A worker that hangs in its commit comes back when another has its place."""
    hung: list[tuple[BinlogWorker, dict[Destination, Any]]] = []
    real = BinlogWorker.commit

    def hang(self: BinlogWorker, ledger: dict[Destination, Any]) -> Any:
        if len(hung) < 3 and ledger:
            hung.append((self, ledger))
            raise WorkerDied
        return real(self, ledger)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BinlogWorker, "commit", hang)
        _deliver(written, tmp_path, Forgetful())
    assert len(hung) == 3
    for worker, ledger in hung:
        with pytest.raises(Exception, match=r"epoch|No such file"):
            worker.commit(ledger)
    assert _files(tmp_path) == wanted


def test_once_more_from_the_same_checkpoint_adds_nothing(
    written: Written, wanted: dict[str, list[bytes]], tmp_path: Path
) -> None:
    _deliver(written, tmp_path, InProcessJobs())
    _deliver(written, tmp_path, InProcessJobs(), epoch=2)
    assert _files(tmp_path) == wanted


def test_old_files_go(written: Written, wanted: dict[str, list[bytes]], tmp_path: Path) -> None:
    _deliver(written, tmp_path, InProcessJobs())
    kept = files_of(tmp_path)[3:]
    for file in files_of(tmp_path)[:3]:
        os.utime(file, (0, time.time() - 3700))
    uri = f"binlog://{tmp_path}?file-size={_SIZE}&retention=1h"
    deliver(written.folder, uri, RULES, written.start_ts, epoch=2)
    assert files_of(tmp_path) == kept
    assert _files(tmp_path) == {file.name: wanted[file.name] for file in kept}
