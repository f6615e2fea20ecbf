"""Rows of single tables, copied while a changefeed runs, lie between its changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.base.ts import MAX_TS
from cdc.changelog.reader import ChangeLog
from cdc.coord.messages import CopyOrder, Report, RowsPiece
from cdc.snapshot import settle
from cdc.snapshot.place import free_place
from cdc.snapshot.servers import SourceServers
from processor.table_copying import TableCopying, piece_rows
from tests.processor.in_process import Running
from tests.servers import Database
from tests.sink_mysql.replay import content
from tests.snapshot.test_copying import PAIRS, Reading, Way, fill
from tests.waiting import until

pytestmark = pytest.mark.real

Rows = list[tuple[Any, ...]]


@pytest.fixture
def way(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Way]:
    """Return a way whose target has all rows, some of them wrong ones, and lacks some."""
    one, other = getattr(request, "param", PAIRS[0])
    made = Way(database(one), database(other), fresh_name, tmp_path / "log")
    made.config = {"filter": {"rules": [f"{made.schema}.*"]}, "snapshot": {"chunk_rows": 500}}
    made.info = made.info.model_copy(update={"config": made.config})
    fill(made.target, made.schema)
    made.target.execute(
        "update numbers set v = 'wrong' where id % 3 = 0",
        "delete from names where name like '%8'",
        "update pairs set v = 'not copied' where a = 10",
        database=made.schema,
    )
    yield made
    made.jobs.close()


def _running(way: Way, order: CopyOrder | None = None) -> Running:
    """Deliver the log while ``order`` is carried out: numbers and names are copied."""
    log = ChangeLog.open(way.folder)
    start_ts = log.state.first_ts
    log.close()
    return Running(
        way.folder, way.info.sink_uri, way.config, way.jobs,
        start_ts=start_ts, barrier_ts=MAX_TS, feed=way.info.id,
        server=lambda stop: SourceServers(way.pulled.info, way.pulled.settings, stop),
        assigned={"copy_order": order or CopyOrder(id="1", tables=[f"{way.schema}.n*"])},
    )  # fmt: skip


def _copied(way: Way, running: Running | None = None) -> Report:
    """Deliver all of the log while numbers and names are copied; the last report."""
    running = running or _running(way)
    log = ChangeLog.open(way.folder)
    until(lambda: _is_copied(running), "all is copied", 60)
    way.source.execute(
        "update numbers set v = 'behind the rows' where id = 12",
        "delete from numbers where id = 18",
        "insert into pairs values (1, '2024-01-01', 'others go on')",
        database=way.schema,
    )
    way.pulled.caught_up()
    upto = log.refresh().resolved_ts
    log.close()

    def delivered() -> bool:
        running.feed.wake()
        return bool(running.reports) and running.reports[-1].checkpoint_ts >= upto

    until(delivered, "what is not held is delivered")
    running.stop()
    return running.reports[-1]


def _is_copied(running: Running) -> bool:
    copied = running.reports[-1].copied if running.reports else None
    assert copied is None or copied.error is None, copied
    return copied is not None and copied.progress.ts > 0


def _deliver(way: Way, report: Report) -> None:
    """The owner begins an epoch with the rows."""
    copied = report.copied
    assert copied is not None
    at = copied.progress
    piece = RowsPiece(id="1", tables=copied.tables, base_ts=at.base_ts, ts=at.ts)
    rows = piece_rows(way.folder, way.info, piece)
    assert rows is not None
    running = Running(
        way.folder, way.info.sink_uri, way.config, Reading(),
        start_ts=1, checkpoint_ts=report.checkpoint_ts, starts=report.table_checkpoints, epoch=2,
        feed=way.info.id, rows=rows, assigned={"piece": piece},
    )  # fmt: skip
    running.done()
    running.through()
    running.stop()


def _change_between_chunks(way: Way) -> None:
    # What is behind a chunk that was read must not be read beside it.
    way.config["snapshot"]["max_connections"] = 1
    way.source.execute(
        "update numbers set v = 'of before' where id = 2",
        "delete from numbers where id = 4",
        database=way.schema,
    )
    for statement in (
        "update numbers set v = 'read already', id = 5 where id = 6",
        "delete from numbers where id in (8, 5990)",
        "insert into numbers values (4, 'again', 1)",
    ):
        way.jobs.between.append(lambda s=statement: way.source.execute(s, database=way.schema))


@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_rows_mend_their_tables_and_no_other(way: Way) -> None:
    _change_between_chunks(way)
    with way.pulled:
        report = _copied(way)
        assert not way.jobs.between
        held = {f"{way.schema}.numbers", f"{way.schema}.names"}
        assert report.table_checkpoints.keys() == held
        before = content(way.target, way.schema)
        assert before["numbers"] != content(way.source, way.schema)["numbers"]
        _deliver(way, report)
    found, wanted = content(way.target, way.schema), content(way.source, way.schema)
    assert len(found["pairs"]) == len(wanted["pairs"])
    assert found.pop("pairs") != wanted.pop("pairs")
    assert found == wanted


def test_a_paused_copy_keeps_what_it_has_read_and_holds_nothing(way: Way) -> None:
    paused, resumed = threading.Event(), threading.Event()
    went_on_when_resumed: list[bool] = []

    def pause() -> None:
        running.pause(True)
        # Whoever reads goes on from here, and would read the next chunks.
        paused.set()

    way.config["snapshot"]["max_connections"] = 1
    way.jobs.between += [pause, lambda: went_on_when_resumed.append(resumed.is_set())]
    with way.pulled as pulled:
        running = _running(way)
        assert paused.wait(60)
        way.source.execute("update numbers set v = 'meanwhile' where id < 99", database=way.schema)
        pulled.caught_up()
        upto = running.log.refresh().resolved_ts
        until(lambda: _stands(running) >= upto, "its tables go on")
        resumed.set()
        running.pause(False)
        report = _copied(way, running)
        assert went_on_when_resumed == [True]
        _deliver(way, report)
    found, wanted = content(way.target, way.schema), content(way.source, way.schema)
    assert (found["numbers"], found["names"]) == (wanted["numbers"], wanted["names"])


def _stands(running: Running) -> int:
    """Up to where all tables are delivered."""
    running.feed.wake()
    last = running.reports[-1]
    return min([last.checkpoint_ts, *last.table_checkpoints.values()])


def test_control_tables_that_are_not_held_miss_their_rows(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(self: TableCopying, *_: object) -> None:
        if self._asked is not None:
            self._held.set()

    monkeypatch.setattr(TableCopying, "answer", answer)
    with way.pulled:
        report = _copied(way)
        assert not report.table_checkpoints
        _deliver(way, report)
    assert content(way.target, way.schema)["names"] != content(way.source, way.schema)["names"]


class _Log:
    """What is asked of a log."""

    class state:  # noqa: N801
        resolved_ts = 1000

    def __init__(self, rows: list[int], statements: list[int]) -> None:
        self._rows, self._statements = rows, statements

    def runs(self, lo: object, hi: object) -> object:
        return type("Runs", (), {"commit_ts": [t for t in self._rows if lo.ts < t <= hi.ts]})

    def ddls(self, lo: int, hi: int) -> object:
        return type("Runs", (), {"commit_ts": [t for t in self._statements if lo < t <= hi]})


@pytest.mark.parametrize(
    ("rows", "statements", "above", "least", "length", "place"),
    [
        ([], [], 100, 500, 50, 500),
        ([490], [], 100, 500, 50, 541),
        ([490, 530], [], 100, 500, 50, 581),
        ([490, 541], [], 100, 500, 50, 592),
        ([490, 542], [], 100, 500, 50, 541),
        ([], [480], 100, 500, 50, 531),
        ([], [], 600, 500, 50, 651),
        ([], [], 960, 500, 50, None),
        ([*range(400, 1001, 50)], [], 100, 500, 50, None),
    ],
)
def test_rows_lie_where_the_log_has_nothing(
    rows: list[int], statements: list[int], above: int, least: int, length: int, place: int | None
) -> None:
    log = _Log(rows, statements)
    assert free_place(log, above, least, length) == place  # type: ignore[arg-type]


def _wrong_at_target(way: Way) -> CopyOrder:
    """Rows that only the target has, and an order that lists them with others."""
    way.source.execute("insert into numbers values (9, 'upstream too', 1)", database=way.schema)
    way.target.execute(
        "insert into numbers values (7, 'target only', 1), (9, 'target', 1), (11, 'target', 1),"
        " (13, 'target', 1)",
        "delete from numbers where id = 10",
        database=way.schema,
    )
    way.jobs.between.append(
        lambda: way.source.execute(
            "insert into numbers values (11, 'since it was read', 1), (13, 'for a moment', 1)",
            "delete from numbers where id = 13",
            "delete from numbers where id = 8",
            database=way.schema,
        )
    )
    return CopyOrder(
        id="1", tables=[f"`{way.schema}`.`numbers`"], where="id in (6, 7, 8, 9, 10, 11, 13)",
        key=["ID"], target_only=[["7"], ["8"], ["9"], ["11"], ["13"]],
    )  # fmt: skip


def _repaired(way: Way) -> tuple[Rows, Rows]:
    """Some rows of the target behind an order, and of the upstream."""
    with way.pulled:
        report = _copied(way, _running(way, _wrong_at_target(way)))
        assert not way.jobs.between
        _deliver(way, report)
    select = "select * from numbers where id between 6 and 13 order by id"
    target, source = (d.execute(select, database=way.schema) for d in (way.target, way.source))
    return target, source


@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_rows_that_only_the_target_has_go_unless_the_upstream_has_them_by_then(way: Way) -> None:
    target, source = _repaired(way)
    assert target == source
    assert [row[0] for row in target] == [6, 9, 10, 11, 12]
    select = "select v from numbers where id = 0"
    assert [r[0] for r in way.target.execute(select, database=way.schema)] == ["wrong"]


def test_control_rows_that_only_the_target_has_stay(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "_gone", lambda *_: iter(()))
    target, source = _repaired(way)
    assert {row[0] for row in target} - {row[0] for row in source} == {7}
