"""A changefeed may begin anywhere in a long history of schema changes: the rows are the same.

All starts: ``TIDEGATE_STARTS=all``, with ``--timeout=0``. Each is followed past the ``NEAR`` next
changes only: to the end, the time would be the square of their number.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.ts import MAX_TS
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from tests.e2e import topics
from tests.processor.in_process import Running
from tests.processor.shaped import ShapedLog, commit_ts, go, rows_of
from tests.seeds import one_run_in
from tests.servers import Broker, Database
from tests.waiting import until

STATEMENTS = 200
SEGMENT_BYTES = 16 << 10
SAMPLE = os.environ.get("TIDEGATE_STARTS", "6")
NEAR = 20
Rows = dict[tuple[str, int], list[Any]]


@pytest.fixture(scope="module")
def log(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> ShapedLog:
    folder = tmp_path_factory.mktemp("history") / "log"
    made = ShapedLog(folder, mariadb, 5, 170, segment_bytes=SEGMENT_BYTES)
    assert len(made.waits) >= STATEMENTS
    return made


@pytest.fixture(scope="module")
def whole(log: ShapedLog, broker: Broker) -> Rows:
    """What a changefeed from the beginning makes of the log."""
    rows, _ = _delivered(log, broker, f"history-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
    assert sum(map(len, rows.values())) == sum(map(len, log.seen.values()))
    return rows


def _delivered(
    log: ShapedLog,
    broker: Broker,
    topic: str,
    start_ts: int = 0,
    folder: Path | None = None,
    *,
    near: int = 0,
) -> tuple[Rows, int]:
    """The rows of a changefeed, and up to which ts these are all.

    ``near``: behind so many changes it ends, if it is not 0.
    """
    start_ts = start_ts or log.start_ts
    pending = log.changes(start_ts)
    running = log.run(broker, topic, pending, folder, start_ts=start_ts)
    upto = MAX_TS
    try:
        left = go(running, pending, max(0, len(pending) - near) if near else 0)
        if left:
            upto = left[0].ts - 1
            _whole(running, upto)
        assert running.reports[-1].stopped_tables == []
    finally:
        running.stop()
    return _read(broker, topic), upto


def _whole(running: Running, upto: int) -> None:
    def come() -> bool:
        assert running.feed.alive, running.reports[-1:]
        if not running.reports:
            return False
        report = running.reports[-1]
        return min([report.checkpoint_ts, *report.table_checkpoints.values()]) >= upto

    until(come, "every table comes to the next change")


def _read(broker: Broker, topic: str) -> Rows:
    return _plain(rows_of(topics.read(broker.bootstrap, [topic])))


def _plain(rows: Rows) -> Rows:
    """Without the time of their making."""
    return {k: [{n: v for n, v in b.items() if n != "ts"} for b in r] for k, r in rows.items()}


def _between(rows: Rows, above: int, upto: int) -> Rows:
    cut = {
        place: [b for b in bodies if above < commit_ts(b) <= upto] for place, bodies in rows.items()
    }
    return {place: bodies for place, bodies in cut.items() if bodies}


def _starts(log: ShapedLog, seed: int) -> list[int]:
    """Some ts at changes, just below them, and between them, rising."""
    ts = [wait.ts for wait in log.waits]
    if SAMPLE == "all":
        return sorted({t - below for t in ts for below in (0, 1)})
    dice = random.Random(seed)
    found = set()
    for i in dice.sample(range(len(ts) - 1), int(SAMPLE)):
        found.add(dice.choice((ts[i], ts[i] - 1, (ts[i] + ts[i + 1]) // 2)))
    return sorted(found)


def _same(found: Rows, wanted: Rows) -> None:
    assert found.keys() == wanted.keys()
    for place, bodies in wanted.items():
        assert found[place] == bodies, place


@one_run_in(2)
def test_a_changefeed_from_between_any_changes_delivers_the_same(
    log: ShapedLog, whole: Rows, broker: Broker, topic_prefix: str
) -> None:
    near = NEAR if SAMPLE == "all" else 0
    for i, start_ts in enumerate(_starts(log, 1)):
        found, upto = _delivered(log, broker, f"{topic_prefix}_{i}", start_ts, near=near)
        _same(_between(found, 0, upto), _between(whole, start_ts, upto))


def test_one_that_ends_anywhere_and_goes_on_delivers_each_row_once(
    log: ShapedLog, whole: Rows, broker: Broker, topic_prefix: str
) -> None:
    """Its tables stand at many places then; each knows its schema there, from the beginning on."""
    pending, ends = log.changes(log.start_ts), random.Random(3)
    where: dict[str, Any] = {}
    epoch = 0
    while pending:
        epoch += 1
        running = log.run(broker, topic_prefix, pending, epoch=epoch, **where)
        try:
            pending = go(running, pending, max(0, len(pending) - ends.randint(1, 60)))
        finally:
            running.stop()
        report = running.reports[-1]
        where = log.resumed(report)
    assert epoch > 4
    _same(_read(broker, topic_prefix), whole)


@pytest.fixture
def collected(log: ShapedLog, tmp_path: Path) -> Iterator[LogWriter]:
    """A copy of the log whose retention the test plays."""
    shutil.copytree(log.folder, tmp_path / "log")
    settings = ChangelogSettings(segment_bytes=SEGMENT_BYTES, keep_s=0)
    with LogWriter.open(tmp_path / "log", settings, SystemClock()) as writer:
        yield writer


def test_and_so_when_the_segments_before_it_are_gone(
    log: ShapedLog,
    whole: Rows,
    broker: Broker,
    topic_prefix: str,
    collected: LogWriter,
    tmp_path: Path,
) -> None:
    """Their statements come from the journal."""
    removed, near = 0, NEAR if SAMPLE == "all" else 0
    for i, start_ts in enumerate(_starts(log, 2)):
        removed += len(collected.collect(start_ts))
        found, upto = _delivered(
            log, broker, f"{topic_prefix}_{i}", start_ts, tmp_path / "log", near=near
        )
        _same(_between(found, 0, upto), _between(whole, start_ts, upto))
    assert removed > 3
    opened = ChangeLog.open(tmp_path / "log")
    kept = opened.statements(log.start_ts, log.end_ts)
    opened.close()
    assert [ts for ts, _ in kept] == [one.ts for one in log.statements]
