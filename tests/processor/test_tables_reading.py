"""The next table begins beside the last chunks of the one before."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.base.clock import SystemClock
from cdc.base.errors import TidegateError
from cdc.coord.messages import SnapshotProgress, UpstreamInfo
from cdc.coord.snapshot_config import SnapshotConfig
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.snapshot.chunks import Chunk, SnapshotTableChanged
from cdc.snapshot.errors import SnapshotTableUnreadable
from cdc.snapshot.servers import SourceServers
from cdc.source.settings import SourceSettings
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.chunks_at_once import ChunksAtOnce, CopyStopped
from processor.copy_limits import CopyLimits
from processor.copy_progress import CopyProgress
from processor.settings import ProcessorSettings
from processor.tables_reading import TablesReading
from tests.processor.in_process import InProcessJobs
from tests.waiting import until


def _table(name: str) -> Table:
    return parse_create_table(f"CREATE TABLE {name} (id int primary key)", Session(), schema="s")


class Held(InProcessJobs):
    """Chunks, ``table/number`` each, that end when the test says so; ``failing`` fail then."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.failing: set[str] = set()
        self._let = threading.Condition()
        self._ended: set[str] = set()

    def let(self, *names: str) -> None:
        """These may end."""
        with self._let:
            self._ended.update(names)
            self._let.notify_all()

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        """One chunk."""
        (task,) = tasks
        self.begun.append(task.condition)
        with self._let:
            assert self._let.wait_for(lambda: task.condition in self._ended, 60)
        if task.condition in self.failing:
            return [ChunkRead(error=SnapshotTableChanged(task.condition).to_dict())]
        return [ChunkRead(path=task.condition, rows=10, events=1, bytes=100)]


class Chunks:
    """The chunks of a table, and of which sizes it was told; ``error`` behind the last."""

    def __init__(self, table: Table, count: int, error: TidegateError | None) -> None:
        self._left = [Chunk("s", table.name, number) for number in range(count)]
        self._error = error

    def next(self) -> Chunk | None:
        """The next one."""
        if not self._left and self._error is not None:
            raise self._error
        return self._left.pop(0) if self._left else None

    def condition(self, chunk: Chunk) -> str:
        """By which the test knows it."""
        return f"{chunk.table}/{chunk.number}"

    def measured(self, chunk: Chunk, seconds: float) -> None:
        """Nothing is made of it."""


class Stage:
    """Tables of so many chunks each, two chunks at once."""

    def __init__(self, **counts: int) -> None:
        self.jobs, self.stopping = Held(), threading.Event()
        self.errors: dict[str, TidegateError] = {}
        self.told: list[SnapshotProgress] = []
        clock, info, settings = SystemClock(), UpstreamInfo(name="u", uri=""), ProcessorSettings()
        self.tables = {name: _table(name) for name in counts}

        def chunks(part: Table, config: SnapshotConfig) -> Chunks:
            return Chunks(part, counts[part.name], self.errors.get(part.name))

        def task(table: Table, condition: str, number: int, chunk: Chunk, part: int) -> ChunkTask:
            return ChunkTask(info, SourceSettings(), table, condition, number, "", part=part)

        servers: Any = SimpleNamespace(of=lambda part: SimpleNamespace(chunks=chunks))
        config = SnapshotConfig()
        counted = CopyProgress(clock, self.told.append)
        counted.begin_round((), {table.full_name: 10 for table in self.tables.values()})
        self.at_once = ChunksAtOnce(
            "f", self.jobs, settings, clock, self.stopping, 2, lambda table: info
        )
        limits = CopyLimits(config, clock, self.stopping, None)
        self.reading = TablesReading(
            self.at_once, cast(SourceServers, servers), config, limits, counted, self.check, task
        )

    def check(self) -> None:
        """More may be read."""

    def begin(self, number: int, name: str) -> None:
        """Begin a table."""
        self.reading.begin(self.tables[name], number, (self.tables[name],))

    def paths(self, number: int) -> list[str]:
        """The files of a table."""
        return [str(file.path) for file in self.reading.files(number)]


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(**request.param)
    with made.at_once:
        yield made
        made.jobs.let(*(f"{name}/{number}" for name in made.tables for number in range(9)))


@pytest.mark.parametrize("stage", [{"a": 1, "b": 1, "c": 2}], indirect=True)
def test_small_tables_are_read_beside_each_other(stage: Stage) -> None:
    stage.begin(1, "a")
    stage.begin(2, "b")
    until(lambda: stage.jobs.begun == ["a/0", "b/0"], "both are read at once")
    assert stage.told[-1].tables_done == 0
    stage.jobs.let("b/0", "c/0")
    # A third has room only once one has ended, whichever that is.
    stage.begin(3, "c")
    assert stage.jobs.begun[:3] == ["a/0", "b/0", "c/0"]
    assert stage.told[-1].tables_done == 1
    stage.jobs.let("a/0", "c/1")
    stage.reading.finish()
    assert [stage.paths(n) for n in (1, 2, 3)] == [["a/0"], ["b/0"], ["c/0", "c/1"]]
    now = stage.told[-1]
    assert (now.tables_done, now.rows, now.bytes) == (3, 40, 400)
    assert {read.name: read.rows for read in now.reads} == {"s.a": 10, "s.b": 10, "s.c": 20}


@pytest.mark.parametrize("stage", [{"a": 3, "b": 1}], indirect=True)
def test_files_are_in_order_whichever_ended_first(stage: Stage) -> None:
    stage.jobs.let("a/1", "a/2", "b/0")
    stage.begin(1, "a")
    stage.begin(2, "b")
    stage.jobs.let("a/0")
    stage.reading.finish()
    assert stage.paths(1) == ["a/0", "a/1", "a/2"]


@pytest.mark.parametrize("stage", [{"a": 5, "b": 1}], indirect=True)
def test_a_table_that_fails_is_read_no_further_and_others_are(stage: Stage) -> None:
    stage.jobs.failing = {"a/0"}
    stage.jobs.let("a/0", "a/1", "a/2", "b/0")
    stage.begin(1, "a")
    stage.begin(2, "b")
    stage.reading.finish()
    # What was begun when it failed is read to its end.
    assert "a/4" not in stage.jobs.begun
    with pytest.raises(SnapshotTableChanged, match="a/0"):
        stage.reading.files(1)
    assert stage.paths(2) == ["b/0"]
    assert stage.told[-1].tables_done == 1


@pytest.mark.parametrize("stage", [{"a": 1, "b": 1}], indirect=True)
def test_a_table_that_cannot_be_planned_fails_alone(stage: Stage) -> None:
    stage.errors["a"] = SnapshotTableUnreadable("no right")
    stage.jobs.let("a/0", "b/0")
    stage.begin(1, "a")
    stage.begin(2, "b")
    stage.reading.finish()
    with pytest.raises(SnapshotTableUnreadable):
        stage.reading.files(1)
    assert stage.paths(2) == ["b/0"]


@pytest.mark.parametrize("stage", [{"a": 1, "b": 1}], indirect=True)
def test_who_is_stopped_begins_no_other(stage: Stage) -> None:
    stage.begin(1, "a")
    stage.stopping.set()
    with pytest.raises(CopyStopped):
        stage.begin(2, "b")
    assert stage.jobs.begun == ["a/0"]
