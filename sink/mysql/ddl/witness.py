"""What a target showed before a statement was sent, kept to be compared after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pymysql

from cdc.base.ids import FeedId
from cdc.base.ts import Ts
from cdc.schema.tokens import quoted
from sink.mysql.connection import SinkSession
from sink.mysql.ddl.ledger import digest
from sink.mysql.ddl.shown import Shown
from sink.mysql.ledger import SCHEMA
from sink.schema_change import TableName


@dataclass(frozen=True, slots=True)
class Witness:
    """``texts``: a digest of each table's definition, ``""`` for none. ``ids``: InnoDB's own

    number of each table and partition by name, where it matters and the user may see it.
    """

    texts: Mapping[TableName, str] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, session: SinkSession, shown: Mapping[TableName, Shown], *, exchanging: bool
    ) -> Witness:
        """What is there now."""
        texts = {name: one.digest for name, one in shown.items()}
        return cls(texts, _ids(session, shown) if exchanging else {})

    def to_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {"texts": [[*name, text] for name, text in self.texts.items()], "ids": {**self.ids}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Witness:
        """Inverse of :meth:`to_json`."""
        texts = {(a, b): text for a, b, text in value.get("texts", ())}
        return cls(texts, dict(value.get("ids", {})))


def _ids(session: SinkSession, tables: Mapping[TableName, Shown]) -> dict[str, int]:
    view = "innodb_sys_tables" if session.target.mariadb else "innodb_tables"
    found: dict[str, int] = {}
    for schema, name in tables:
        try:
            rows = session.rows(
                f"SELECT name AS n, table_id AS i FROM information_schema.{view}"
                " WHERE name = %s OR name LIKE %s",
                f"{schema}/{name}",
                f"{schema}/{name}#%",
            )
        except pymysql.err.Error:
            # It takes the right PROCESS.
            return {}
        found |= {str(row["n"]): int(row["i"]) for row in rows}
    return found


@dataclass(frozen=True, slots=True)
class Marker:
    """An empty table that is renamed with others in one statement, and so shows that it happened.

    Two tables that look alike and change their names show nothing themselves.
    """

    feed: FeedId
    ts: Ts

    def _name(self, word: str) -> str:
        return quoted(SCHEMA, f"{word}_{digest(self.feed)}_{self.ts}")

    @property
    def clause(self) -> str:
        """Its part of RENAME TABLE."""
        return f"{self._name('renaming')} TO {self._name('renamed')}"

    def make(self, session: SinkSession) -> None:
        """Create it where it is missing; PyMySQL's errors pass."""
        session.run(f"CREATE TABLE IF NOT EXISTS {self._name('renaming')} (i int) ENGINE = InnoDB")

    def moved(self, session: SinkSession) -> bool:
        """Whether the statement has happened."""
        found = session.rows(
            "SELECT 1 AS x FROM information_schema.tables WHERE table_schema = %s"
            " AND table_name = %s",
            SCHEMA,
            f"renamed_{digest(self.feed)}_{self.ts}",
        )
        return bool(found)

    def remove(self, session: SinkSession) -> None:
        """Drop it under either name."""
        session.run(f"DROP TABLE IF EXISTS {self._name('renaming')}, {self._name('renamed')}")


def remove_markers(session: SinkSession, feed: FeedId, upto: Ts) -> None:
    """Drop markers that a crash behind their change has left; PyMySQL's errors pass."""
    found = session.rows(
        "SELECT table_name AS n FROM information_schema.tables WHERE table_schema = %s"
        " AND table_name LIKE %s",
        SCHEMA,
        f"renam%\\_{digest(feed)}\\_%",
    )
    for row in found:
        if int(str(row["n"]).rpartition("_")[2]) <= upto:
            session.run(f"DROP TABLE IF EXISTS {quoted(SCHEMA, str(row['n']))}")
