"""All who follow a log's schema share what it began with, and nothing that they follow."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cdc.base.ts import compose
from cdc.changelog.reader import ChangeLog
from cdc.schema.catalog import Unread
from cdc.schema.table import Table
from cdc.source import known_snapshots
from cdc.source.statements import History
from tests.changelog.logs import ddl, open_log

START = compose(1_700_000_000_000)


def _snapshot(column: str) -> dict[str, Any]:
    columns = f"`{column}` int NOT NULL, PRIMARY KEY (`{column}`)"
    return {
        "ts": START,
        "server": {"kind": "mysql", "version": "8.0.33"},
        "databases": {"d": {}},
        "tables": {f"d.{name}": f"CREATE TABLE `{name}` ({columns})" for name in ("a", "b")},
    }


def _columns(history: History, table: str, ts: int) -> list[str]:
    found = history.versions.table("d", table, ts)
    assert found is not None
    return [column.name for column in found.columns]


def test_what_no_statement_touched_is_there_once(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with open_log(folder) as writer:
        writer.begin(START, {})
        writer.save_snapshot(START, _snapshot("id"))
        ddl(writer, START + 10, "ALTER TABLE d.a ADD COLUMN more INT")
        writer.commit(START + 20, {})
        # Each in a log of its own, as changefeeds are.
        first, second = (History(ChangeLog.open(folder), START) for _ in range(2))
        first.refresh(START + 20)
        assert _columns(first, "a", START + 20) == ["id", "more"]
        assert _columns(second, "a", START) == ["id"]
        assert first.versions.table("d", "b", START + 20) is second.versions.table("d", "b", START)
        # Another snapshot in its place is another one.
        writer.save_snapshot(START, _snapshot("number"))
        third = History(ChangeLog.open(folder), START)
        assert _columns(third, "b", START) == ["number"]
        assert _columns(second, "b", START) == ["id"]
    del first, second, third
    gc.collect()
    assert not [key for key in known_snapshots._known if key[0].is_relative_to(folder)]


def test_a_table_is_one_value_whoever_asks_first() -> None:
    """Who compares versions by identity must not see two of the same."""
    begun, go = threading.Barrier(8), threading.Event()

    def read() -> Table:
        assert go.wait(60)
        return Table("d", "t", ())

    unread = Unread(read)

    def ask() -> Table:
        begun.wait(60)
        return unread.get()

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        go.set()
        assert len({id(one.result(60)) for one in asked}) == 1
