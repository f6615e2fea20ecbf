"""Rows out of a real server's binlog, written to another server as SQL text."""

from __future__ import annotations

from typing import Any

import numpy as np

from cdc.rows.batch import RowBatch
from sink.mysql.connection import SinkSession
from sink.mysql.sql_cutter import SqlBatch, SqlCutter
from sink.mysql.sql_facts import Facts, read_facts
from sink.mysql.sql_plan import SQL_MODE, SqlEntry, SqlPlan, sql_plan
from sink.mysql.target import read_table
from tests.sink_mysql.replay import Replay, settings_of


class SqlTarget:
    """A session at the target and the plan of a replay's tables."""

    def __init__(self, replay: Replay, target: Any, *, safe_mode: bool = False) -> None:
        self.replay = replay
        self.session = SinkSession(settings_of(target))
        self.session.run(f"set session sql_mode = '{SQL_MODE}'")
        self.plan: SqlPlan = self._plan(safe_mode)
        self.cutter = SqlCutter(self.plan)
        self.located = RowBatch(replay.buf, replay.runs, 200_000, self.plan.plans, "test.binlog")

    def _plan(self, safe_mode: bool) -> SqlPlan:
        facts = read_facts(self.session, {t.schema for t, _, _ in self.replay.entries})
        entries = [
            SqlEntry(
                table,
                stored,
                read_table(self.session, table.schema, table.name),
                facts.get((table.schema, table.name), Facts()),
            )
            for table, stored, _ in self.replay.entries
        ]
        # In two steps, as a worker meets tables.
        half = len(entries) // 2
        target = self.session.target
        first = sql_plan(entries[:half], target, safe_mode=safe_mode)
        return sql_plan(entries[half:], target, safe_mode=safe_mode, before=first)

    def batches(self, limit: int = 1 << 20) -> list[tuple[bytes, SqlBatch]]:
        """All statements, and their descriptions."""
        order = np.arange(len(self.located.refs), dtype=np.int64)
        limits = {"limit": limit, "max_message": self.session.target.max_packet - 64}
        found = self.cutter.batches(self.located, self.replay.runs, order, **limits)
        return [(bytes(batch.data), batch) for batch in found]

    def deliver(self, limit: int = 1 << 20) -> int:
        """Run all statements in one transaction; how many there were."""
        try:
            self.session.run("BEGIN")
            batches = self.batches(limit)
            for sql, batch in batches:
                got = self.session.run(sql)
                assert batch.matched in (-1, got), (got, batch.matched, sql[:300])
            self.session.run("COMMIT")
        finally:
            self.session.close()
        return len(batches)


def deliver(replay: Replay, target: Any, limit: int = 1 << 20, *, safe_mode: bool = False) -> int:
    """Write all rows; the number of statements."""
    return SqlTarget(replay, target, safe_mode=safe_mode).deliver(limit)
