"""What is told of a copy: its speed, and of which tables how many rows are to come."""

from __future__ import annotations

import pytest

from cdc.api.reading import Reading
from cdc.cli.snapshot import _span
from cdc.coord.messages import SnapshotProgress, TableReadState
from processor.copy_progress import CopyProgress, Speed


class ManualClock:
    """Time that a test moves."""

    t = 1000.0

    def now_ms(self) -> int:
        """As a wall clock."""
        return int(self.t * 1000)

    def monotonic(self) -> float:
        """As a monotonic one."""
        return self.t


def test_speed_is_of_late() -> None:
    speed = Speed(0.0).read(1000, 10.0)
    assert speed.per_second == 100
    for at in range(20, 200, 10):
        speed = speed.read(5000, float(at))
    assert 495 < speed.per_second < 500
    # Nothing more is read.
    assert speed.read(0, 1000.0).per_second < 1e-6


def test_tables_that_are_read_come_first_then_those_with_the_most_rows() -> None:
    clock, told = ManualClock(), list[SnapshotProgress]()
    progress = CopyProgress(clock, told.append)
    progress.begin_round((), {"s.a": 10, "s.b": 4000, "s.c": 0, "s.d": 900})
    assert (told[-1].tables, told[-1].tables_done, told[-1].rows_expected) == (4, 0, 4910)
    progress.begin("s.a")
    clock.t += 1
    # There are more than the server has guessed. The next begins beside the last of it.
    progress.begin("s.d")
    progress.read("s.a", 100, 5000)
    progress.end("s.a", read=True)
    clock.t += 1
    progress.read("s.d", 100, 5000)
    now = told[-1]
    assert (now.rows, now.bytes, now.tables_done, now.rows_per_second) == (200, 10000, 1, 100)
    assert now.rows_expected == 100 + 4000 + 900
    assert [(t.name, t.state, t.rows) for t in now.reads] == [
        ("s.d", TableReadState.READING, 100),
        ("s.b", TableReadState.WAITING, 0),
        ("s.c", TableReadState.WAITING, 0),
        ("s.a", TableReadState.READ, 100),
    ]
    shown = Reading.of(now)
    assert shown is not None
    assert shown.seconds_left == (5000 - 200) // 100
    assert [t.seconds_left for t in shown.tables] == [8, 40, None, 0]
    paused = Reading.of(now, paused=True)
    assert paused is not None
    assert paused.seconds_left is None
    # One table has changed: it is read again, and one has gone.
    progress.begin_round(["s.a"], {"s.a": 10, "s.d": 900})
    assert [(t.name, t.rows) for t in told[-1].reads] == [("s.d", 0), ("s.a", 100)]
    assert Reading.of(now.model_copy(update={"ts": 7})) is None


def test_of_many_tables_the_first_are_told() -> None:
    clock, told = ManualClock(), list[SnapshotProgress]()
    progress = CopyProgress(clock, told.append)
    progress.begin_round((), {f"s.t{i}": i for i in range(3000)})
    assert [t.expected for t in told[-1].reads] == list(range(2999, 2899, -1))
    assert told[-1].rows_expected == sum(range(3000))
    # All are looked at now and then, and not for each that is read.
    first = told[-1].reads
    progress.begin("s.t7")
    progress.read("s.t7", 70, 5000)
    assert (told[-1].rows, told[-1].reads is first) == (70, True)
    clock.t += 1
    progress.end("s.t8", read=False)
    clock.t += 1
    progress.end("s.t7", read=True)
    assert told[-1].tables_done == 1
    assert told[-1].rows_expected == sum(range(3000)) - 7 - 8 + 70


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0, "0s"), (59, "59s"), (200, "3m20s"), (7500, "2h05m")]
)
def test_a_time_is_said_as_people_do(seconds: int | None, text: str) -> None:
    assert _span(seconds) == text
