"""What a worker knows of tables does not grow with the schema changes that it has seen."""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path

import pytest

from cdc.base.position import Position
from cdc.changelog.index import LAST_OF_TRANSACTION, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from cdc.coord.feed_config import FeedConfig
from cdc.schema.table import Table
from processor.catalog import DeliveredTables
from tests.changelog.events import query
from tests.changelog.logs import open_log, rows_event
from tests.schema.test_compacted import first_snapshot
from tests.source.test_compaction import statement

EACH = 60


def _row(writer: LogWriter, ts: int, table: int) -> None:
    data = rows_event(table, b"row")
    run = Runs.build(
        1, commit_ts=ts, flags=LAST_OF_TRANSACTION, table=table, length=len(data), rows=1
    )
    writer.append(data + query("COMMIT"), run)


def _write(writer: LogWriter, first: int) -> None:
    """An ALTER, a row behind it, a table that comes, has a row, and goes; over and over."""
    for ts in range(first, first + 10 * EACH, 10):
        statement(writer, ts, f"ALTER TABLE kept ADD COLUMN added_{ts} int")
        _row(writer, ts + 1, writer.table_id("test", "kept", b"%d" % ts))
        statement(writer, ts + 2, f"CREATE TABLE staged_{ts} LIKE kept")
        _row(writer, ts + 3, writer.table_id("test", f"staged_{ts}", b"%d" % ts))
        statement(writer, ts + 4, f"DROP TABLE staged_{ts}")
        statement(writer, ts + 5, f"ALTER TABLE kept DROP COLUMN added_{ts}")
        writer.commit(ts + 9, {})


def _versions() -> int:
    """Versions of tables that somebody still holds, other tests' too."""
    gc.collect()
    # A proxy whose object is gone has a type, and no class that could be asked for.
    return sum(issubclass(type(one), Table) for one in gc.get_objects())


@pytest.mark.parametrize("crossing", [True, False], ids=["capture", "worker"])
@pytest.mark.parametrize("collected", [True, False], ids=["collected", "not-collected"])
def test_versions_below_the_checkpoint_go(tmp_path: Path, collected: bool, crossing: bool) -> None:
    """A capture asks which tables pass a change too, a worker does not."""
    held = []
    with open_log(tmp_path) as writer, closing(ChangeLog.open(tmp_path)) as log:
        writer.save_snapshot(1, first_snapshot("mariadb"))
        writer.begin(1, {})
        statement(writer, 2, "CREATE TABLE kept (id int)")
        writer.commit(9, {})
        log.refresh()
        catalog = DeliveredTables(log, 1, FeedConfig(ignore_ineligible_table=True))
        for part in range(3):
            first = 10 + 10 * EACH * part
            _write(writer, first)
            log.refresh()
            for ts in range(first, first + 10 * EACH, 10):
                if collected:
                    catalog.collect(ts - 1)
                catalog.refresh(ts + 9)
                if crossing:
                    assert catalog.crossed(ts + 9, {}) == {"test.kept", f"test.staged_{ts}"}
                for row in (ts + 1, ts + 3):
                    runs = log.runs(Position(row - 1), Position(row), tables=catalog.ids)
                    assert len(catalog.in_force(runs)) == 1
            held.append(_versions())
    # The negative control shows that the others were there.
    assert (held[2] - held[0] < EACH / 4) == collected, held
