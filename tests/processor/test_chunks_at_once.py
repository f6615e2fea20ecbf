"""Chunks are read as many at once as are allowed, and the next begins as soon as one ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.errors import TidegateError
from cdc.coord.messages import UpstreamInfo
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.snapshot.chunks import Chunk, SnapshotTableChanged
from cdc.snapshot.errors import SnapshotReadBroken
from cdc.source.settings import SourceSettings
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.chunks_at_once import ChunksAtOnce, CopyStopped
from processor.settings import ProcessorSettings
from tests.processor.in_process import InProcessJobs
from tests.waiting import until

TABLE = parse_create_table("CREATE TABLE t (id int primary key)", Session(), schema="s")


class Held(InProcessJobs):
    """Chunks whose ends the test decides; ``answers`` come before these."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[str, threading.Event] = {}
        self.begun: list[str] = []
        self.answers: list[Callable[[], ChunkRead]] = []

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        """One chunk, once it is let go."""
        (task,) = tasks
        self.begun.append(task.condition)
        if self.answers:
            return [self.answers.pop(0)()]
        assert self.ends[task.condition].wait(60)
        return [ChunkRead(path=task.condition, rows=1)]


class Stage:
    """One reading of chunks, two at once."""

    def __init__(self) -> None:
        self.jobs, self.stopping = Held(), threading.Event()
        self.info = UpstreamInfo(name="u", uri="")
        settings = ProcessorSettings(retry_first_s=0.01, retry_max_s=0.01)
        self.reading = ChunksAtOnce(
            "f", self.jobs, settings, SystemClock(), self.stopping, 2, lambda table: self.info
        )
        self.ended: list[int] = []
        self.failed: list[TidegateError] = []

    def begin(self, number: int) -> None:
        """Have a chunk read."""
        name = str(number)
        self.jobs.ends[name] = threading.Event()
        task = ChunkTask(self.info, SourceSettings(), TABLE, name, 1, "")
        self.reading.begin(Chunk("s", "t", number), task)

    def let(self, number: int) -> None:
        """Let it end, and wait for that."""
        self.jobs.ends[str(number)].set()
        self.reading.ended(self._count)

    def _count(
        self, task: ChunkTask, chunk: Chunk, read: ChunkRead | TidegateError, began_s: float
    ) -> None:
        if isinstance(read, TidegateError):
            self.failed.append(read)
            return
        assert read.path == str(chunk.number)
        self.ended.append(chunk.number)


@pytest.fixture
def stage() -> Any:
    made = Stage()
    with made.reading:
        yield made
        for end in made.jobs.ends.values():
            end.set()


def test_the_next_begins_as_soon_as_one_ends(stage: Stage) -> None:
    assert stage.reading.idle
    stage.begin(0)
    assert not stage.reading.full
    stage.begin(1)
    until(lambda: len(stage.jobs.begun) == 2, "both are read at once")
    assert stage.reading.full
    stage.let(1)
    # The slower one is still read.
    assert stage.ended == [1]
    assert not stage.reading.full
    stage.begin(2)
    until(lambda: len(stage.jobs.begun) == 3, "the next is read beside it")
    stage.let(2)
    stage.let(0)
    assert stage.ended == [1, 2, 0]
    assert stage.reading.idle


def _error(error: TidegateError) -> Callable[[], ChunkRead]:
    return lambda: ChunkRead(error=error.to_dict())


def test_what_is_lost_is_read_again_and_what_is_gone_is_not(stage: Stage) -> None:
    def aborted() -> ChunkRead:
        raise RuntimeError("Job aborted\nby a stack of Java")

    stage.jobs.answers = [aborted, _error(SnapshotReadBroken("cut off"))]
    stage.begin(0)
    stage.let(0)
    assert stage.jobs.begun == ["0"] * 3
    stage.jobs.answers = [_error(SnapshotTableChanged("gone"))]
    stage.begin(1)
    stage.let(1)
    assert [error.code for error in stage.failed] == ["TG:ErrSnapshotTableChanged"]
    assert stage.ended == [0]


def test_whoever_is_stopped_reads_nothing_again(stage: Stage) -> None:
    stage.stopping.set()
    stage.jobs.answers = [_error(SnapshotReadBroken("cut off"))]
    stage.begin(0)
    with pytest.raises(CopyStopped):
        stage.let(0)
    assert stage.jobs.begun == ["0"]
