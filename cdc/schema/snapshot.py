"""A schema snapshot (SHOW CREATE TABLE of every table at one position) as tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from cdc.schema.catalog import Catalog, Database, Tables, Unread
from cdc.schema.charsets import default_collation
from cdc.schema.copies import found_in
from cdc.schema.definition import TableDefinition
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Column, Table
from cdc.schema.table_copy import Copies, TableCopy, decode_copy, encode_copy
from cdc.schema.table_json import decode, encode
from cdc.schema.tokens import DDLNotUnderstood

_HEAD = re.compile(r"CREATE TABLE `(?:[^`]|``)+` \(")
_COUNTER = re.compile(r"(?<= )AUTO_INCREMENT=\d+ ")


def session_of(server: Mapping[str, Any]) -> Session:
    """How SQL text of this server is read; ``server`` is the snapshot's own description.

    It is the ``base`` of ``cdc.schema.events.session_of_event`` for statements behind the snapshot.
    """
    version = tuple(int(p) for p in str(server["version"]).split("-")[0].split(".")[:3])
    major, minor, patch = (*version, 0, 0, 0)[:3]
    return Session(
        mariadb=server["kind"] == "mariadb",
        version=(major, minor, patch),
        # Old servers do not say it with each statement.
        explicit_defaults_for_timestamp=bool(int(server.get("explicit_defaults_for_timestamp", 1))),
        lower_case_table_names=int(server.get("lower_case_table_names", 0)),
    )


class CreateText(NamedTuple):
    """SHOW CREATE TABLE, and the defaults of the table's database when it was printed."""

    text: str
    charset: str
    collation: str | None


class Wanted(Protocol):
    """Which tables are asked about, such as rules say it."""

    def matches(self, schema: str, table: str) -> bool:
        """Whether a table is, by database and name."""

    def matches_schema(self, schema: str) -> bool:
        """Whether any table of a database could be."""


class Schema(Mapping[tuple[str, str], Table]):
    """Tables of a snapshot by ``(schema, name)``, parsed on first use.

    A table that cannot be understood raises when it is asked for, so that it harms nobody else.
    ``sources`` is what each is made of: its text, or the JSON of :mod:`cdc.schema.table_json`.
    """

    def __init__(self, snapshot: Mapping[str, Any]) -> None:
        self.ts = int(snapshot["ts"])
        self.session = session_of(snapshot["server"])
        self._databases: Mapping[str, Mapping[str, str]] = snapshot["databases"]
        self.sources: dict[tuple[str, str], CreateText | Mapping[str, Any]] = {}
        for full_name, text in snapshot["tables"].items():
            key = self._split(full_name)
            database = self._databases.get(key[0], {})
            charset = database.get("charset", "utf8mb4")
            self.sources[key] = CreateText(text, charset, database.get("collation"))
        for schema, name, text, charset, collation in snapshot.get("texts", ()):
            self.sources[schema, name] = CreateText(text, charset, collation)
        for schema, value in snapshot.get("values", ()):
            self.sources[schema, value["name"]] = value
        self._whole: Catalog | None = None
        self._snapshot = snapshot
        self._tables: dict[tuple[str, str], Table] = {}
        self._shapes: dict[bytes, Table] = {}
        self._columns: dict[Column, Column] = {}

    def _split(self, full_name: str) -> tuple[str, str]:
        schema, _, name = full_name.partition(".")
        while schema not in self._databases and "." in name:
            more, _, name = name.partition(".")
            schema = f"{schema}.{more}"
        if schema in self._databases:
            return schema, name
        schema, _, name = full_name.partition(".")
        return schema, name

    def __getitem__(self, key: tuple[str, str]) -> Table:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self.parse(key)
        return table

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)

    def tables_of(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """(database, table) of all databases that are wanted."""
        return (key for key in self.sources if wanted(key[0]))

    def copy_of(self, schema: str, name: str) -> TableCopy | None:
        """What is known of a table as a copy of another; None if it is none."""
        if self._whole is None:
            self._whole = catalog(self._snapshot)
        return self._whole.copy_of(schema, name)

    def definition(self, key: tuple[str, str]) -> TableDefinition:
        """A table with how it is printed; raises as asking for the table does."""
        table = self[key]
        if self._whole is None:
            self._whole = catalog(self._snapshot)
        database = self._whole.database(key[0])
        assert database is not None
        return TableDefinition(table, self.text(key), database.charset, database.collation)

    def text(self, key: tuple[str, str]) -> str:
        """SHOW CREATE TABLE of a table; "" if the snapshot has it as a value."""
        source = self.sources[key]
        return source.text if isinstance(source, CreateText) else ""

    def parse(self, key: tuple[str, str]) -> Table:
        """The table, read anew; raises ``DDLNotUnderstood`` with its name."""
        source = self.sources[key]
        if not isinstance(source, CreateText):
            return decode(source, self._columns)
        text, charset, collation = source
        shape = _shape(text, charset, collation)
        known = self._shapes.get(shape)
        if known is not None:
            return replace(known, schema=key[0], name=key[1])
        try:
            table = parse_create_table(
                text,
                self.session,
                schema=key[0],
                charset=charset,
                collation=collation,
                printed=True,
            )
        except DDLNotUnderstood as e:
            raise DDLNotUnderstood(e.message, object=f"{key[0]}.{key[1]}", hint=e.hint) from e
        self._shapes[shape] = table
        return replace(table, schema=key[0], name=key[1])


def same_text(one: str, other: str) -> bool:
    """Whether two SHOW CREATE TABLE differ in nothing but what rows change: the next number."""
    return one == other or _COUNTER.sub("", one) == _COUNTER.sub("", other)


def _shape(text: str, charset: str, collation: str | None) -> bytes:
    """What two tables share that differ in nothing but their names: shards are such tables."""
    head = _HEAD.match(text)
    body = _COUNTER.sub("", text[head.end() :] if head else text)
    return blake2b(f"{charset} {collation} {body}".encode("utf-8", "surrogatepass")).digest()


def catalog(snapshot: Mapping[str, Any]) -> Catalog:
    """All databases and tables of a snapshot, to be followed with ``cdc.schema.apply``.

    Tables are read when they are asked for; one that cannot be read harms nobody else.
    """
    schema = Schema(snapshot)
    by_database: dict[str, list[tuple[str, str]]] = {}
    for key in schema:
        by_database.setdefault(key[0], []).append(key)
    mode = int(snapshot["server"].get("lower_case_table_names", 0))
    made = Catalog(lower_case_table_names=mode)
    known = snapshot["databases"]
    for name in {**known, **by_database}:
        options = known.get(name, {})
        charset = options.get("charset", "utf8mb4")
        collation = options.get("collation") or default_collation(charset, schema.session)
        unread = (
            (made.key(k[1]), Unread(partial(schema.parse, k), text=schema.text(k)))
            for k in by_database.get(name, ())
        )
        made = made.with_database(Database(name, charset, collation, Tables().of(unread)))
    for database, name in snapshot.get("others", ()):
        made = made.with_other(database, name)
    for database, copies in _copies(snapshot, made).items():
        made = made.with_database(replace(made.databases[made.key(database)], copies=copies))
    return made


def _copies(snapshot: Mapping[str, Any], made: Catalog) -> Mapping[str, Copies]:
    """By database: as they were followed, or as the tables themselves tell."""
    known = snapshot.get("copies")
    if known is None:
        return found_in(made, (tuple(t) for t in snapshot.get("triggers", ())))
    copies: dict[str, dict[str, TableCopy]] = {}
    for database, name, value in known:
        copies.setdefault(database, {})[name] = decode_copy(value)
    return copies


def compacted(snapshot: Mapping[str, Any], last: Catalog, ts: int, **others: Any) -> dict[str, Any]:
    """The snapshot of what ``last`` has come to from ``catalog(snapshot)``, at a later ``ts``.

    Tables that no statement has changed stay the text that they were; others are values.
    ``others`` are members of their own.
    """
    sources = {
        (last.key(schema), last.key(name)): (name, source)
        for (schema, name), source in Schema(snapshot).sources.items()
    }
    texts: list[list[Any]] = []
    values: list[list[Any]] = []
    for database in last.databases.values():
        for key, one in database.tables.items():
            if not isinstance(one, Unread):
                values.append([database.name, encode(one)])
                continue
            name, source = sources[last.key(database.name), key]
            if isinstance(source, CreateText):
                texts.append([database.name, name, *source])
            else:
                values.append([database.name, source])
    return {
        "ts": ts,
        "server": snapshot["server"],
        "databases": {
            d.name: {"charset": d.charset, "collation": d.collation}
            for d in last.databases.values()
        },
        "tables": {},
        "texts": texts,
        "values": values,
        "others": [[d.name, o] for d in last.databases.values() for o in sorted(d.others)],
        "copies": listed_copies(last),
        **others,
    }


def listed_copies(last: Catalog) -> list[list[Any]]:
    """What a snapshot keeps of copies: (database, name, value) of each."""
    return [
        [database.name, name, encode_copy(copy)]
        for database in last.databases.values()
        for name, copy in database.copies.items()
    ]


def load(snapshot: Mapping[str, Any]) -> Schema:
    """Schema of a snapshot as ``cdc.source`` takes it and the change log keeps it."""
    return Schema(snapshot)
