"""Folds a topic of canal-json into tables, as an ordinary consumer would, and judges the result.

Nothing here knows Tidegate: messages are read by librdkafka, decoded by ``json.loads``, and
compared with what the upstream selects. It works for tables of :mod:`bench.workload`, whose column
``ver`` makes every message unique, and for topics in which a key stays in one partition. Other
tables, and columns that schema changes add to these and take away again, are passed over:
``cdc cli changefeed verify`` judges those.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.seen import Seen
from bench.workload import Committed, Connect
from bench.workload_tables import Table

Row = dict[str, str | None]
Key = tuple[str | None, ...]

# A judge needs a few examples of what is wrong, not all of them.
_EXAMPLES = 5


class Fold:
    """Tables as the messages so far make them, and what was wrong with the messages."""

    def __init__(self, tables: Iterable[Table]) -> None:
        listed = list(tables)
        self._keys = {t.name: t.key for t in listed}
        self._columns = {t.name: tuple(c.name for c in t.columns) for t in listed}
        self.rows: dict[str, dict[Key, Row]] = {name: {} for name in self._keys}
        self.messages = 0
        self.other = 0
        self.duplicated: list[str] = []
        self.disordered: list[str] = []
        self.times = array("d")
        self.lags = array("d")
        self._seen = Seen()

    def add(self, message: bytes, received_s: float | None = None) -> bool:
        """Take one message; ``received_s`` (Unix time) adds to ``times`` and ``lags``.

        False if it is passed over: a schema change, or of another table.
        """
        said = json.loads(message)
        kind = said["type"]
        name = said["table"]
        if kind not in ("INSERT", "UPDATE", "DELETE") or name not in self._keys:
            self.other += 1
            return False
        self.messages += 1
        (row,) = said["data"]
        grown = len(row) > len(self._columns[name])
        if grown:
            row = self._own(name, row)
        version = int(row["ver"])
        if not self._seen.first_time(name, version, deleted=kind == "DELETE"):
            self.duplicated.append(f"{name} {kind} ver {version}")
            return True
        if received_s is not None and kind != "DELETE":
            self.times.append(received_s)
            self.lags.append(received_s - int(row["at_us"]) / 1e6)
        columns = self._keys[name]
        rows = self.rows[name]
        key = tuple([row[c] for c in columns])
        if kind == "INSERT":
            if key in rows:
                self.disordered.append(f"{name} INSERT of {key}, which is there")
            rows[key] = row
        elif kind == "UPDATE":
            (old,) = said["old"]
            if grown:
                old = self._own(name, old)
            before = rows.pop(tuple([old.get(c, row[c]) for c in columns]), None)
            self._expect(name, kind, key, before, old)
            rows[key] = row
        else:
            self._expect(name, kind, key, rows.pop(key, None), row)
        return True

    def _own(self, name: str, row: Row) -> Row:
        """The row without columns that the workload did not make."""
        return {c: row[c] for c in self._columns[name] if c in row}

    def _expect(self, name: str, kind: str, key: Key, before: Row | None, old: Row) -> None:
        """What a message says was there must be what is there."""
        if before is None:
            self.disordered.append(f"{name} {kind} of {key}, which is not there")
        elif before != old and any(before.get(c, "") != v for c, v in old.items()):
            self.disordered.append(f"{name} {kind} of {key}: it was {before}, it says {old}")

    def missing(self, committed: Committed) -> int:
        """How many committed inserts and updates have not been seen."""
        return self._seen.missing(committed)

    def uncommitted(self, committed: Committed) -> int:
        """How many inserts and updates were seen that were never committed."""
        return self._seen.uncommitted(committed)


@dataclass
class TableResult:
    """One table: rows upstream, rows downstream, how many differ, and a few of those."""

    name: str
    upstream: int = 0
    downstream: int = 0
    different: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        """Count a difference."""
        self.different += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(what)

    @property
    def equal(self) -> bool:
        """Whether every row and value is the same on both sides."""
        return self.different == 0


@dataclass
class Verdict:
    """The whole judgement."""

    tables: list[TableResult]
    lost: int
    duplicated: int
    disordered: int
    uncommitted: int
    examples: list[str]

    @property
    def proven(self) -> bool:
        """Whether the topic holds exactly what was committed, once and in order."""
        wrong = self.lost + self.duplicated + self.disordered + self.uncommitted
        return wrong == 0 and all(t.equal for t in self.tables)

    def lines(self) -> list[str]:
        """The judgement for people."""
        shown = []
        for t in self.tables:
            sign = "upstream = downstream" if t.equal else "upstream ≠ downstream"
            shown.append(f"{t.name:12} {sign}  {t.upstream} rows, {t.downstream} rows")
            shown += [f"  {e}" for e in t.examples]
        shown.append(f"lost {self.lost}, duplicated {self.duplicated}")
        for name in ("disordered", "uncommitted"):
            if count := getattr(self, name):
                shown.append(f"{name} {count}")
        return shown + [f"  {e}" for e in self.examples]


def judge(
    fold: Fold, committed: Committed, connect: Connect, schema: str, tables: Iterable[Table]
) -> Verdict:
    """Compare the fold with what was committed and with what the upstream holds now."""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00', NAMES utf8mb4")
        results = [compare(t, selected(cursor, schema, t), fold.rows[t.name]) for t in tables]
    return verdict(fold, committed, results)


def verdict(fold: Fold, committed: Committed, results: list[TableResult]) -> Verdict:
    """The judgement over compared tables."""
    return Verdict(
        results,
        lost=fold.missing(committed),
        duplicated=len(fold.duplicated),
        disordered=len(fold.disordered),
        uncommitted=fold.uncommitted(committed),
        examples=fold.duplicated[:_EXAMPLES] + fold.disordered[:_EXAMPLES],
    )


def selected(cursor: Any, schema: str, table: Table) -> Iterable[Row]:
    """A server's rows of a table, values as canal-json shows them."""
    cursor.execute(
        f"SELECT {', '.join(c.select for c in table.columns)} FROM {schema}.{table.name}"
    )
    for values in cursor:
        yield {
            c.name: None if v is None else c.show.text(v)
            for c, v in zip(table.columns, values, strict=True)
        }


def compare(table: Table, upstream: Iterable[Row], downstream: Mapping[Key, Row]) -> TableResult:
    """Compare rows by key, and equal keys value by value."""
    result = TableResult(table.name, downstream=len(downstream))
    seen = set()
    for row in upstream:
        result.upstream += 1
        key = tuple(row[c] for c in table.key)
        seen.add(key)
        other = downstream.get(key)
        if other is None:
            result.note(f"{key} is upstream only")
        elif other != row:
            wrong = [
                f"{c}: upstream {row.get(c)!r}, downstream {other.get(c)!r}"
                for c in sorted({*row, *other})
                if (c in row, row.get(c)) != (c in other, other.get(c))
            ]
            result.note(f"{key}: {'; '.join(wrong)}")
    for key in downstream.keys() - seen:
        result.note(f"{key} is downstream only")
    return result
