"""A consumer that rebuilds a database from a topic, written from docs/messages.md alone.

It shares nothing with the program that wrote the topic: messages are JSON, the target takes plain
SQL. Two ways of ordering are described there, and both are here: :class:`ByWatermark` needs the
TiDB extension, :class:`Aligned` does not.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pymysql

_DUPLICATE = 1062
_NO_VARIABLE = 1193
# Values of these types are digits; ENUM, SET and BIT are numbers.
_DIGITS = frozenset(
    [
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double"),
        *("bit", "enum", "set", "year"),
    ]
)
_BYTES = frozenset(
    [
        *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry"),
        *("point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    ]
)
_ROWS = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"


class Wrong(AssertionError):
    """The topic breaks what its description says."""


@dataclass(frozen=True)
class Event:
    """One message and the partition that it was in."""

    partition: int
    body: Any

    @property
    def kind(self) -> str:
        """INSERT, UPDATE, DELETE, TIDB_WATERMARK, or the type of a DDL."""
        return str(self.body["type"])

    @property
    def ddl(self) -> bool:
        """Whether it is a schema change."""
        return bool(self.body["isDdl"])

    @property
    def ts(self) -> int:
        """The commit ts; needs the extension."""
        return int(self.body["_tidb"]["commitTs"])

    @property
    def identity(self) -> object:
        """What the copies of one DDL in several partitions share."""
        return self.ts if "_tidb" in self.body else (self.body["es"], self.body["sql"])

    @property
    def table(self) -> tuple[str, str]:
        """Schema and name."""
        return self.body["database"], self.body["table"]


class Applies(Protocol):
    """Takes events in the order in which they are to be carried out."""

    def ddl(self, event: Event) -> None:
        """Carry a DDL out."""

    def row(self, event: Event) -> bool:
        """Apply a row change; False if a key stands in its way."""


class Target:
    """A server that is changed by SQL alone; the last rows are left for the caller to commit."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._generated: dict[tuple[str, str], set[str]] = {}
        self._vector = "VEC_FromText"
        ((version,),) = self._rows("SELECT VERSION()")
        if "MariaDB" not in version:
            self._vector = "STRING_TO_VECTOR"
        self._settle()

    def ddl(self, event: Event) -> None:
        """Run the statement in the session that the message describes, as far as it does."""
        # Some variables cannot be set while a transaction is open, and SHOW opens one too.
        self._connection.autocommit(True)
        context = event.body.get("_tidegate", {})
        default = context.get("defaultDatabase", event.body["database"])
        if default and self._rows("SHOW DATABASES LIKE %s", default.replace("_", "\\_")):
            self._run(f"USE {_name(default)}")
        for variable, value in context.get("session", {}).items():
            try:
                self._run(f"SET SESSION {variable} = %s", value)
            except pymysql.err.OperationalError as e:
                if e.args[0] != _NO_VARIABLE:
                    raise
        self._run(event.body["sql"])
        self._settle()

    def row(self, event: Event) -> bool:
        """Apply each row of the message by its key, or by all its values."""
        body = event.body
        for i, row in enumerate(body["data"]):
            old = {**row, **body["old"][i]} if event.kind == "UPDATE" else row
            try:
                self._change(event, row, old)
            except pymysql.err.IntegrityError as e:
                if e.args[0] != _DUPLICATE or i > 0:
                    raise
                return False
        return True

    def _change(self, event: Event, row: dict[str, Any], old: dict[str, Any]) -> None:
        table = ".".join(_name(part) for part in event.table)
        hidden = self._computed(event.table)
        values = {k: self._literal(event, k, v) for k, v in row.items() if k not in hidden}
        if event.kind == "INSERT":
            names = ", ".join(_name(k) for k in values)
            self._one(f"INSERT INTO {table} ({names}) VALUES ({', '.join(values.values())})")
            return
        key = event.body["pkNames"] or list(old)
        where = " AND ".join(f"{_name(k)} <=> {self._literal(event, k, old[k])}" for k in key)
        if event.kind == "DELETE":
            self._one(f"DELETE FROM {table} WHERE {where} LIMIT 1")
        else:
            sets = ", ".join(f"{_name(k)} = {v}" for k, v in values.items())
            self._one(f"UPDATE {table} SET {sets} WHERE {where} LIMIT 1")

    def _literal(self, event: Event, column: str, value: str | None) -> str:
        kind = event.body["mysqlType"][column].split("(")[0].split(" ")[0].lower()
        if value is None:
            return "NULL"
        if kind in _DIGITS:
            return value
        if kind in _BYTES:
            return f"x'{value.encode('latin-1').hex()}'"
        text = str(self._connection.escape(value))
        return f"{self._vector}({text})" if kind == "vector" else text

    def _computed(self, table: tuple[str, str]) -> set[str]:
        if table not in self._generated:
            found = self._rows(
                "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s"
                " AND TABLE_NAME = %s AND GENERATION_EXPRESSION <> ''",
                *table,
            )
            self._generated[table] = {name for (name,) in found}
        return self._generated[table]

    def _settle(self) -> None:
        """A session for rows; what was known of tables may have changed."""
        self._generated.clear()
        self._run(
            f"SET SESSION sql_mode = '{_ROWS}', time_zone = '+00:00', foreign_key_checks = 0,"
            " timestamp = DEFAULT"
        )
        # A DDL commits the rows before it: no commit of their own, it would take most of the time.
        self._connection.autocommit(False)

    def _one(self, sql: str) -> None:
        if (count := self._run(sql)) != 1:
            raise Wrong(f"{count} rows: {sql}")

    def _run(self, sql: str, *values: object) -> int:
        with self._connection.cursor() as cursor:
            return int(cursor.execute(sql, values or None))

    def _rows(self, sql: str, *values: object) -> Sequence[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return cursor.fetchall()  # type: ignore[no-any-return]


def _name(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


class Claims:
    """What the description says of order, checked on every message as it comes."""

    def __init__(self) -> None:
        self._watermarks: dict[int, int] = defaultdict(int)
        self._last_row: dict[tuple[int, tuple[str, str]], int] = defaultdict(int)
        self._changed: dict[tuple[int, tuple[str, str]], int] = defaultdict(int)
        self._ddls: dict[int, set[object]] = defaultdict(set)

    def check(self, event: Event) -> None:
        """Raise :class:`Wrong` if the message should not be here."""
        if event.ddl:
            if event.identity in self._ddls[event.partition]:
                raise Wrong(f"it comes twice in a partition: {event}")
            self._ddls[event.partition].add(event.identity)
        if "_tidb" not in event.body:
            return
        if event.kind == "TIDB_WATERMARK":
            said = int(event.body["_tidb"]["watermarkTs"])
            self._watermarks[event.partition] = max(said, self._watermarks[event.partition])
            return
        if event.ts <= self._watermarks[event.partition]:
            raise Wrong(f"it comes behind watermark {self._watermarks[event.partition]}: {event}")
        place = event.partition, event.table
        if event.ddl:
            if self._last_row[place] > event.ts:
                raise Wrong(f"a later row of the table came before it: {event}")
            self._changed[place] = event.ts
        else:
            if event.ts < max(self._changed[place], self._last_row[place]):
                raise Wrong(f"it comes behind what is later: {event}")
            self._last_row[place] = event.ts


class ByWatermark:
    """Holds messages until every partition's watermark has passed, then goes by commit ts."""

    def __init__(self, partitions: int, target: Applies) -> None:
        self._target = target
        self._claims = Claims()
        self._watermarks = [0] * partitions
        self._held: list[Event] = []
        self.applied = 0

    def add(self, partition: int, message: bytes) -> None:
        """Take the next message of a partition."""
        event = Event(partition, json.loads(message))
        self._claims.check(event)
        if event.kind == "TIDB_WATERMARK":
            self._watermarks[partition] = int(event.body["_tidb"]["watermarkTs"])
        else:
            self._held.append(event)

    def end(self, partition: int) -> None:
        """The last table of its topic has gone: it is told no watermarks any more."""
        self._watermarks[partition] = 1 << 63

    def advance(self) -> None:
        """Carry out all that is complete."""
        upto = min(self._watermarks)
        ready: dict[int, list[Event]] = defaultdict(list)
        for event in self._held:
            if event.ts <= upto:
                ready[event.ts].append(event)
        self._held = [e for e in self._held if e.ts > upto]
        for ts in sorted(ready):
            if ready[ts][0].ddl:
                self._target.ddl(ready[ts][0])
            else:
                self._transaction(ready[ts])
            self.applied += 1

    @property
    def waiting(self) -> int:
        """How many messages are held."""
        return len(self._held)

    def _transaction(self, rows: list[Event]) -> None:
        """Rows of one transaction: order counts within a partition; across them keys decide."""
        queues: dict[int, deque[Event]] = defaultdict(deque)
        for event in rows:
            queues[event.partition].append(event)
        while any(queues.values()):
            moved = False
            for queue in queues.values():
                while queue and self._target.row(queue[0]):
                    queue.popleft()
                    moved = True
            if not moved:
                raise Wrong(f"no order applies: {[q[0] for q in queues.values() if q]}")


class Aligned:
    """Applies rows as they come; a partition waits at a DDL until all partitions have shown it."""

    def __init__(self, partitions: int, target: Applies) -> None:
        self._target = target
        self._claims = Claims()
        self._queues: list[deque[Event]] = [deque() for _ in range(partitions)]
        self.applied = 0

    def add(self, partition: int, message: bytes) -> None:
        """Take the next message of a partition."""
        event = Event(partition, json.loads(message))
        self._claims.check(event)
        if event.kind != "TIDB_WATERMARK":
            self._queues[partition].append(event)

    def advance(self) -> None:
        """Carry out all that can be."""
        while True:
            for queue in self._queues:
                while queue and not queue[0].ddl:
                    if not self._target.row(queue.popleft()):
                        raise Wrong("a key stands in the way of a row")
                    self.applied += 1
            if not all(self._queues):
                return
            heads = [queue.popleft() for queue in self._queues]
            if len({head.identity for head in heads}) != 1:
                raise Wrong(f"partitions show DDLs in different order: {heads}")
            self._target.ddl(heads[0])
            self.applied += 1

    @property
    def waiting(self) -> int:
        """How many messages are held."""
        return sum(map(len, self._queues))


def rebuild(
    messages: Iterable[tuple[int, bytes]],
    partitions: int,
    connection: Any,
    *,
    watermarks: bool,
    silent: Collection[int] = (),
) -> ByWatermark | Aligned:
    """Carry out a topic that has ended, given as (partition, value) in any interleaving.

    Partitions of several topics may be numbered through; ``silent`` ones belong to topics that
    have no table any more.
    """
    how = ByWatermark if watermarks else Aligned
    consumer = how(partitions, Target(connection))
    for partition, message in messages:
        consumer.add(partition, message)
        consumer.advance()
    if isinstance(consumer, ByWatermark):
        for partition in silent:
            consumer.end(partition)
        consumer.advance()
    connection.commit()
    return consumer
