"""A schema as a persistent map: databases, their defaults and their tables.

Each change gives a new version that shares all but a path of three small nodes with the old one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from zlib import crc32

from cdc.schema.definition import TableDefinition
from cdc.schema.table import Table
from cdc.schema.table_copy import Copies, TableCopy

_FANOUT = 64
_Bucket = dict[str, "Table | Unread"]
_Row = tuple[_Bucket, ...]
_EMPTY_ROW: _Row = ({},) * _FANOUT
# Catalogs are shared by threads.
_reading = threading.Lock()


@dataclass(slots=True)
class Unread:
    """A table of a snapshot whose text is read when it is asked for, and then kept.

    ``text`` is its SHOW CREATE TABLE, "" if the snapshot has it as a value.
    """

    read: Callable[[], Table] | None
    table: Table | None = None
    text: str = ""

    def get(self) -> Table:
        """The table, always the same value; it is read once, whoever asks first.

        Raises ``DDLNotUnderstood`` each time if its text cannot be read.
        """
        table = self.table
        if table is not None:
            return table
        with _reading:
            if self.read is not None:
                self.table = self.read()
                self.read = None
            assert self.table is not None
            return self.table


def _place(name: str) -> tuple[int, int]:
    number = crc32(name.encode("utf-8", "surrogateescape"))
    return number % _FANOUT, number // _FANOUT % _FANOUT


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of one database by name: two levels of 64 nodes over small dictionaries."""

    rows: tuple[_Row, ...] = (_EMPTY_ROW,) * _FANOUT
    count: int = 0

    def get(self, name: str) -> Table | Unread | None:
        """What is kept under the name."""
        i, j = _place(name)
        return self.rows[i][j].get(name)

    def put(self, name: str, table: Table | Unread) -> Tables:
        """A version with this table."""
        i, j = _place(name)
        bucket = self.rows[i][j]
        grown = self.count + (name not in bucket)
        return Tables(self._changed(i, j, {**bucket, name: table}), grown)

    def drop(self, name: str) -> Tables:
        """A version without it."""
        i, j = _place(name)
        bucket = {k: v for k, v in self.rows[i][j].items() if k != name}
        return Tables(self._changed(i, j, bucket), self.count - (name in self.rows[i][j]))

    def _changed(self, i: int, j: int, bucket: _Bucket) -> tuple[_Row, ...]:
        row = self.rows[i]
        row = (*row[:j], bucket, *row[j + 1 :])
        return (*self.rows[:i], row, *self.rows[i + 1 :])

    def __iter__(self) -> Iterator[str]:
        for row in self.rows:
            if row is not _EMPTY_ROW:
                for bucket in row:
                    if bucket:
                        yield from bucket

    def items(self) -> Iterator[tuple[str, Table | Unread]]:
        """All that is kept, by name."""
        for row in self.rows:
            if row is not _EMPTY_ROW:
                for bucket in row:
                    yield from bucket.items()

    def of(self, pairs: Iterator[tuple[str, Table | Unread]]) -> Tables:
        """A version with all of these, made in one go."""
        # Only what they fall into is copied: a server may have thousands of small databases.
        buckets: dict[int, dict[int, _Bucket]] = {}
        count = self.count
        for name, table in pairs:
            i, j = _place(name)
            row = buckets.setdefault(i, {})
            if j not in row:
                row[j] = dict(self.rows[i][j])
            count += name not in row[j]
            row[j][name] = table
        rows = list(self.rows)
        for i, changed in buckets.items():
            rows[i] = tuple(changed.get(j, bucket) for j, bucket in enumerate(rows[i]))
        return Tables(tuple(rows), count)


@dataclass(frozen=True, slots=True)
class Database:
    """A database: its default character set and collation, and its tables.

    ``others`` are the names that a table cannot have besides: views and sequences. ``copies`` are
    those tables that were made to take another's place (:mod:`cdc.schema.copies`).
    """

    name: str
    charset: str
    collation: str
    tables: Tables = field(default_factory=Tables)
    others: frozenset[str] = frozenset()
    copies: Copies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All databases at one moment. Names are compared as ``lower_case_table_names`` says."""

    databases: dict[str, Database] = field(default_factory=dict)
    lower_case_table_names: int = 0

    def key(self, name: str) -> str:
        """The form in which a name is looked up."""
        return name.lower() if self.lower_case_table_names else name

    def database(self, name: str) -> Database | None:
        """A database by name."""
        return self.databases.get(self.key(name))

    def table(self, schema: str, name: str) -> Table | None:
        """A table, or None; raises ``DDLNotUnderstood`` if the snapshot's text cannot be read."""
        database = self.database(schema)
        found = None if database is None else database.tables.get(self.key(name))
        return found.get() if isinstance(found, Unread) else found

    def definition(self, schema: str, name: str) -> TableDefinition | None:
        """A table and how it is printed, or None; raises as :meth:`table`."""
        database, table = self.database(schema), self.table(schema, name)
        if database is None or table is None:
            return None
        text = self.text(schema, name)
        return TableDefinition(table, text, database.charset, database.collation)

    def text(self, schema: str, name: str) -> str:
        """SHOW CREATE TABLE of a table that no statement has touched, else ""; nothing is read."""
        database = self.database(schema)
        found = None if database is None else database.tables.get(self.key(name))
        return found.text if isinstance(found, Unread) else ""

    def has_table(self, schema: str, name: str) -> bool:
        """Whether there is a table of this name; it is not read."""
        database = self.database(schema)
        return database is not None and database.tables.get(self.key(name)) is not None

    def copy_of(self, schema: str, name: str) -> TableCopy | None:
        """What is known of a table as a copy of another; None if it is none."""
        database = self.database(schema)
        return None if database is None else database.copies.get(self.key(name))

    def with_database(self, database: Database) -> Catalog:
        """A version with this database, new or changed."""
        changed = {**self.databases, self.key(database.name): database}
        return Catalog(changed, self.lower_case_table_names)

    def without_database(self, name: str) -> Catalog:
        """A version without it."""
        key = self.key(name)
        kept = {k: v for k, v in self.databases.items() if k != key}
        return Catalog(kept, self.lower_case_table_names)

    def with_table(self, table: Table) -> Catalog:
        """A version with this table, new or changed; its database must be there."""
        if self.lower_case_table_names == 1:
            table = replace(table, schema=table.schema.lower(), name=table.name.lower())
        database = self.databases[self.key(table.schema)]
        tables = database.tables.put(self.key(table.name), table)
        return self.with_database(replace(database, tables=tables))

    def has_other(self, schema: str, name: str) -> bool:
        """Whether a view or a sequence has this name."""
        database = self.database(schema)
        return database is not None and self.key(name) in database.others

    def with_other(self, schema: str, name: str, *, there: bool = True) -> Catalog:
        """A version in which a view or a sequence has this name, or none has."""
        database = self.database(schema)
        if database is None or (self.key(name) in database.others) is there:
            return self
        return self.with_database(replace(database, others=database.others ^ {self.key(name)}))

    def without_table(self, schema: str, name: str) -> Catalog:
        """A version without it; the same one if there is none."""
        database = self.database(schema)
        if database is None or database.tables.get(self.key(name)) is None:
            return self
        return self.with_database(replace(database, tables=database.tables.drop(self.key(name))))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self.tables_of(lambda _: True)

    def tables_of(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """(database, table) of all databases that are wanted; no table of another is looked at."""
        for database in self.databases.values():
            if wanted(database.name):
                for name in database.tables:
                    yield database.name, name

    def __len__(self) -> int:
        return sum(database.tables.count for database in self.databases.values())
