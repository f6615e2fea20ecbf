"""A schema snapshot (SHOW CREATE TABLE of every table at one position) as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from cdc.schema.catalog import Catalog, Database, Tables, Unread
from cdc.schema.charsets import default_collation
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.schema.tokens import DDLNotUnderstood


def session_of(server: Mapping[str, Any]) -> Session:
    """How SQL text of this server is read; ``server`` is the snapshot's own description."""
    version = tuple(int(p) for p in str(server["version"]).split("-")[0].split(".")[:3])
    major, minor, patch = (*version, 0, 0, 0)[:3]
    return Session(mariadb=server["kind"] == "mariadb", version=(major, minor, patch))


class Schema(Mapping[tuple[str, str], Table]):
    """Tables of a snapshot by ``(schema, name)``, parsed on first use.

    A table that cannot be understood raises when it is asked for, so that it harms nobody else.
    """

    def __init__(self, snapshot: Mapping[str, Any]) -> None:
        self.ts = int(snapshot["ts"])
        self.session = session_of(snapshot["server"])
        self._databases: Mapping[str, Mapping[str, str]] = snapshot["databases"]
        self._texts: dict[tuple[str, str], str] = {}
        for full_name, text in snapshot["tables"].items():
            schema, _, name = full_name.partition(".")
            self._texts[schema, name] = text
        self._tables: dict[tuple[str, str], Table] = {}

    def __getitem__(self, key: tuple[str, str]) -> Table:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self.parse(key)
        return table

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def parse(self, key: tuple[str, str]) -> Table:
        """The table, read anew; raises ``DDLNotUnderstood`` with its name."""
        database = self._databases.get(key[0], {})
        try:
            return parse_create_table(
                self._texts[key],
                self.session,
                schema=key[0],
                charset=database.get("charset", "utf8mb4"),
                collation=database.get("collation"),
            )
        except DDLNotUnderstood as e:
            raise DDLNotUnderstood(e.message, object=f"{key[0]}.{key[1]}", hint=e.hint) from e


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
            (made.key(k[1]), Unread(partial(schema.parse, k))) for k in by_database.get(name, ())
        )
        made = made.with_database(Database(name, charset, collation, Tables().of(unread)))
    return made


def load(snapshot: Mapping[str, Any]) -> Schema:
    """Schema of a snapshot as ``cdc.source`` takes it and the change log keeps it."""
    return Schema(snapshot)
