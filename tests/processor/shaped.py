"""A log of random schema changes and rows, what each row was upstream, and feeds that deliver it.

The owner's part is small here: each table waits below the next change that touches it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cdc.base.ts import MAX_TS
from cdc.changelog.reader import ChangeLog
from cdc.coord.messages import Report
from cdc.source.statements import History, LoggedDdl
from tests.e2e.topics import Message
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Broker, Database
from tests.soak.ddl_load import DELETE, INSERT, SCHEMA, UPDATE, Writer
from tests.source.pulling import Pulled
from tests.waiting import until

Value = tuple[str, str, Any]
"""Name, type in one word, and value of a column, as text where it is not a float."""


@dataclass(frozen=True)
class Row:
    """A row as one statement left it, or found it (DELETE)."""

    kind: str
    id: int
    values: tuple[Value, ...]


class Recorder(Writer):
    """Looks at each row right after (DELETE: before) the statement that changes it.

    ``seen``: by lower-case ``schema.table`` the rows of each statement, by their ids.
    """

    def __init__(self, *args: Any, changes: float = 0.4) -> None:
        super().__init__(*args)
        self.seen: dict[str, list[Row]] = defaultdict(list)
        self._changes = changes

    def step(self) -> None:
        """One statement or a few, with more schema changes among them."""
        if self._random.random() < self._changes:
            self._change(self._random.choice(list(self._rows)))
        else:
            super().step()

    def close(self) -> None:
        """End its connection."""
        self._connection.close()

    def _insert(self, table: str) -> None:
        before = self._next
        super()._insert(table)
        self._note(INSERT, table, f"id > {before} AND id <= {self._next}")

    def _update(self, table: str) -> None:
        before = self._next
        super()._update(table)
        if self._next > before:
            self._note(UPDATE, table, f"n = {self._next}")

    def _delete(self, table: str) -> None:
        before = self._selected(DELETE, table, "TRUE")
        super()._delete(table)
        self.seen[f"{SCHEMA}.{table}"] += [r for r in before if r.id not in self._rows[table]]

    def _database(self, table: str) -> None:
        super()._database(table)
        values = (("id", "bigint", str(self._next - 1)), ("n", "bigint", str(self._next)))
        row = Row(INSERT, self._next - 1, (*values, ("v", "varchar", "x")))
        self.seen[f"{SCHEMA}_x{self._number}.t"].append(row)

    def _note(self, kind: str, table: str, where: str) -> None:
        self.seen[f"{SCHEMA}.{table}"] += self._selected(kind, table, where)

    def _selected(self, kind: str, table: str, where: str) -> list[Row]:
        columns = self._columns[table]
        shown = ", ".join(_SHOWN.get(k, "CAST({} AS CHAR)").format(n) for n, k in columns)
        self._do(f"SELECT id, {shown} FROM {table} WHERE {where} ORDER BY id")
        found = []
        for key, *values in self._cursor.fetchall():
            pairs = zip(columns, values, strict=True)
            found.append(Row(kind, key, tuple((n, k, _value(k, v)) for (n, k), v in pairs)))
        return found


# What the protocol shows of an ENUM is its number.
_SHOWN = {"varbinary": "{}", "enum": "CAST({} + 0 AS CHAR)"}


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("latin1")
    return float(value) if kind == "double" else str(value)


def rows_of(messages: Iterable[Message]) -> dict[tuple[str, int], list[Any]]:
    """Bodies of row messages by table and partition, in order; checked to be in the log's."""
    found: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for m in messages:
        if m.body["type"] in (INSERT, UPDATE, DELETE):
            rows = found[m.table, m.partition]
            assert not rows or commit_ts(rows[-1]) <= commit_ts(m.body), f"{m.table}: order"
            rows.append(m.body)
    return dict(found)


def commit_ts(body: Any) -> int:
    """Of a row message."""
    ts: int = body["_tidb"]["commitTs"]
    return ts


def as_seen(messages: Iterable[Message]) -> dict[str, list[Row]]:
    """Rows of messages as the recorder has them."""
    found: dict[str, list[tuple[int, Row]]] = defaultdict(list)
    for (table, _), bodies in rows_of(messages).items():
        for body in bodies:
            (data,) = body["data"]
            kinds = {name: _one_word(kind) for name, kind in body["mysqlType"].items()}
            values = tuple((n, kinds[n], _value(kinds[n], v)) for n, v in data.items())
            found[table].append((commit_ts(body), Row(body["type"], int(data["id"]), values)))
    return {
        table: [row for _, row in sorted(rows, key=lambda one: (one[0], one[1].id))]
        for table, rows in found.items()
    }


def _one_word(kind: str) -> str:
    return kind.partition(" ")[0].partition("(")[0]


@dataclass(frozen=True)
class Wait:
    """A change: tables (lower case) that wait below its ts; None for all."""

    ts: int
    tables: frozenset[str] | None

    def meets(self, other: Wait) -> bool:
        """Whether they must not change places."""
        if self.tables is None or other.tables is None:
            return True
        return not self.tables.isdisjoint(other.tables)

    def reached(self, report: Report) -> bool:
        """Whether its tables have delivered all below it; one that has stopped does not count."""
        stopped = {stop.table.lower() for stop in report.stopped_tables}
        at = report.table_checkpoints
        names = at.keys() if self.tables is None else self.tables
        lowest = [at.get(t, report.checkpoint_ts) for t in names if t not in stopped]
        return min([report.checkpoint_ts, *lowest]) >= self.ts - 1


def waits(statements: Iterable[LoggedDdl]) -> list[Wait]:
    """The changes among statements."""
    found = []
    for one in statements:
        assert one.statement is not None, one.sql
        assert one.error is None, (one.sql, one.error)
        names = (*one.statement.tables, *one.statement.referenced)
        if one.statement.schemas or names:
            tables = None if one.statement.schemas else {f"{s}.{t}".lower() for s, t in names}
            found.append(Wait(one.ts, None if tables is None else frozenset(tables)))
    return found


class ShapedLog:
    """The log of ``changes`` schema changes and more, with rows between them."""

    def __init__(self, folder: Path, source: Database, seed: int, changes: int, **log: Any) -> None:
        self.folder = folder
        names = (SCHEMA, f"{SCHEMA}_x1")
        gone = [f"DROP DATABASE IF EXISTS {name}" for name in names]
        source.execute(*gone, f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
        with Pulled(source, folder, log=log) as pulled:
            writer = Recorder(source.connect, 1, seed)
            writer.open(8)
            while writer.kinds.total() < changes:
                writer.step()
            writer.close()
            pulled.caught_up()
        source.execute(*gone)
        self.seen, self.kinds = dict(writer.seen), writer.kinds
        opened = ChangeLog.open(folder)
        self.start_ts, self.end_ts = opened.state.first_ts, opened.state.resolved_ts
        self.statements = History(opened, self.start_ts).refresh(MAX_TS)
        opened.close()
        self.waits = waits(self.statements)

    def changes(self, above: int) -> list[Wait]:
        """Those behind a ts."""
        return [wait for wait in self.waits if wait.ts > above]

    def run(
        self,
        broker: Broker,
        topic: str,
        pending: Sequence[Wait],
        folder: Path | None = None,
        **how: Any,
    ) -> Running:
        """Start a feed of all tables into a topic; tables wait for the changes in ``pending``."""
        how.setdefault("start_ts", self.start_ts)
        return Running(
            folder or self.folder,
            f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&partition-num=2"
            "&enable-tidb-extension=true",
            {"force_replicate": True, "filter": {"rules": [f"{SCHEMA}*.*"]}},
            InProcessJobs(),
            feed=topic.replace("_", "-"),
            watermark_interval_s=3600,
            slots_per_core=1,
            **_held(pending),
            **how,
        )

    def resumed(self, report: Report) -> dict[str, Any]:
        """Where the owner of a feed that ended so lets its successor begin."""
        names = {t for wait in self.waits for t in wait.tables or ()}
        at = {t: report.table_checkpoints.get(t, report.checkpoint_ts) for t in names}
        return {"checkpoint_ts": min(at.values()), "starts": at}


def go(running: Running, pending: list[Wait], leave: int = 0) -> list[Wait]:
    """Let tables go on, change by change, until not more than ``leave`` are left; these."""
    while len(pending) > leave:
        look = partial(_ready, tuple(pending), running)
        ready = until(look, "a change's tables come to it")
        pending = [wait for wait in pending if wait not in ready]
        running.hold(**_held(pending))
    if not pending:
        running.through()
    return pending


def _held(pending: Sequence[Wait]) -> dict[str, Any]:
    """Barriers below the first change of each table, and of all."""
    tables: dict[str, int] = {}
    for wait in reversed(pending):
        tables |= dict.fromkeys(wait.tables or (), wait.ts - 1)
    every = [wait.ts - 1 for wait in pending if wait.tables is None]
    return {"barriers": tables, "barrier_ts": min(every, default=MAX_TS)}


def _ready(pending: Sequence[Wait], running: Running) -> list[Wait]:
    """Changes whose tables have come to them, with none before that they must not pass."""
    assert running.feed.alive, running.reports[-1].error
    if not running.reports:
        return []
    report = running.reports[-1]
    found: list[Wait] = []
    before: list[Wait] = []
    for wait in pending:
        if wait.reached(report) and not any(wait.meets(other) for other in before):
            found.append(wait)
        before.append(wait)
    return found
