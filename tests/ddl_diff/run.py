"""Statements on a server, one after the other, and our catalog beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pymysql

from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog, Database
from cdc.schema.ddl import touched
from cdc.schema.events import session_of_event, statement_text
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.tokens import DDLNotUnderstood
from tests import servers
from tests.ddl_diff.compare import Server, differences, ours
from tests.ddl_diff.generate import Generator
from tests.ddl_diff.tail import Tail

# A bit of the status that ends every answer.
_NO_BACKSLASH_ESCAPES = 1 << 9


@dataclass
class Result:
    """Counts, and each refusal and difference with its statement."""

    statements: int = 0
    accepted: int = 0
    equal: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    different: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)

    def summary(self) -> dict[str, int]:
        """The five figures."""
        return {
            "statements": self.statements,
            "accepted": self.accepted,
            "equal": self.equal,
            "refused": len(self.refused),
            "different": len(self.different),
        }


class Run:
    """One server with an execution session, an inspecting session, and our catalog."""

    def __init__(self, db: servers.Database) -> None:
        self._connection = db.connect()
        self._inspector = db.connect()
        mariadb = db.kind == "mariadb"
        version = (*db.version, 0, 0)[:3]
        self._base = Session(mariadb=mariadb, version=version)
        self._server = Server(self._inspector.cursor(), mariadb=mariadb, version=version)
        self._tail = Tail(db)
        self.catalog = Catalog()
        self.result = Result()
        self.trace: list[str] | None = None
        self._unlogged = False
        self._settings()
        for name, defaults in self._server.databases().items():
            self.catalog = self.catalog.with_database(Database(name, *defaults))
        for key in self._server.tables():
            self._take(key)

    def _settings(self) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT @@lower_case_table_names, @@explicit_defaults_for_timestamp, @@version"
            )
            row = cursor.fetchone()
        self.catalog = Catalog(lower_case_table_names=int(row[0]))
        self._base = Session(
            mariadb=self._base.mariadb,
            version=self._base.version,
            explicit_defaults_for_timestamp=bool(row[1]),
            lower_case_table_names=int(row[0]),
        )

    def close(self) -> None:
        """Ends both sessions."""
        self._connection.close()
        self._inspector.close()

    def backslash(self) -> bool:
        """Whether a backslash escapes in strings, as the server said with its last answer."""
        return not self._connection.server_status & _NO_BACKSLASH_ESCAPES

    def all(self, statements: Iterable[str], label: str = "") -> None:
        """Every statement, then every table."""
        for i, statement in enumerate(statements, 1):
            self.one(statement, f"{label}#{i}")

    def generated(self, count: int, seed: int) -> None:
        """So many random statements."""
        made = Generator(seed, mariadb=self._base.mariadb)
        self._execute("CREATE DATABASE IF NOT EXISTS ddl_two CHARACTER SET latin1")
        for i in range(1, count + 1):
            self.one(made.next(self.catalog), f"seed {seed} #{i}")

    def one(self, statement: str, label: str = "") -> None:
        """Executes a statement, follows it, and compares what it touched."""
        self.result.statements += 1
        if self.trace is not None:
            self.trace.append(statement)
        error = self._execute(statement)
        before = self.catalog
        names: set[tuple[str, str]] = set()
        refusal: str | None = None
        for query in self._tail.queries():
            session = session_of_event(self._base, query.schema, query.status(), query.error_code)
            try:
                text = statement_text(query.raw_sql, session)
                seen = touched(text, session)
                names.update(seen.tables)
                for schema in seen.schemas:
                    names.update(k for k in {*before} if k[0] == schema)
                self.catalog = apply(self.catalog, text, session)
            except DDLNotUnderstood as e:
                refusal = e.message
        if error is not None:
            self.result.rejected.append({"at": label, "statement": statement, "error": error})
        else:
            self.result.accepted += 1
        self._compare(statement, label, names, refusal, error)
        if "sql_log_bin" in statement.lower():
            self._unlogged = not self._logs()
        if self._unlogged:
            # What is in no binlog can be followed by nobody.
            self._resync(self._server.tables() | {*self.catalog})

    def _logs(self) -> bool:
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT @@sql_log_bin")
            return bool(cursor.fetchone()[0])

    def _execute(self, statement: str) -> str | None:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                while cursor.nextset():
                    pass
        except pymysql.Error as e:
            if not self._connection.open:
                self._connection.ping(reconnect=True)
            return str(e)
        return None

    def _compare(
        self,
        statement: str,
        label: str,
        names: set[tuple[str, str]],
        refusal: str | None,
        error: str | None,
    ) -> None:
        found: list[str] = []
        for key in sorted(names):
            try:
                mine = ours(self.catalog.table(*key))
            except DDLNotUnderstood as e:
                refusal = refusal or e.message
                continue
            different = differences(mine, self._server.table(*key))
            found += [f"{key[0]}.{key[1]}: {line}" for line in different]
        record = {"at": label, "statement": statement}
        if refusal is not None:
            self.result.refused.append({**record, "reason": refusal})
        elif found:
            self.result.different.append({**record, "differences": found})
        elif error is None:
            self.result.equal += 1
        if refusal is not None or found:
            self._resync(names)

    def _resync(self, names: set[tuple[str, str]]) -> None:
        """Takes the server's word, so that one defect is counted once."""
        databases = self._server.databases()
        for name in {*self.catalog.databases} - {*databases}:
            self.catalog = self.catalog.without_database(name)
        for name, defaults in databases.items():
            if self.catalog.database(name) is None:
                self.catalog = self.catalog.with_database(Database(name, *defaults))
        for key in names | (self._server.tables() ^ {*self.catalog}):
            self._take(key)

    def _take(self, key: tuple[str, str]) -> None:
        database = self.catalog.database(key[0])
        exists = database is not None and self._server.exists(*key)
        text = self._server.create_table(*key) if exists else None
        if exists and text is None:
            return
        self.catalog = self.catalog.without_table(*key)
        if database is None or text is None:
            return
        try:
            table = parse_create_table(
                text,
                self._base,
                schema=key[0],
                charset=database.charset,
                collation=database.collation,
                printed=True,
            )
        except DDLNotUnderstood as e:
            self.result.refused.append({"at": "snapshot", "statement": text, "reason": e.message})
            return
        self.catalog = self.catalog.with_table(table)

    def check_all(self) -> None:
        """Holds every database and table against the server's, and SHOW CREATE TABLE too."""
        found: list[str] = []
        mine = {d.name: (d.charset, d.collation) for d in self.catalog.databases.values()}
        if mine != self._server.databases():
            found.append(f"databases: ours {mine}, server {self._server.databases()}")
        names = self._server.tables()
        if names != {*self.catalog}:
            found.append(
                f"tables: ours only {sorted({*self.catalog} - names)}, "
                f"server only {sorted(names - {*self.catalog})}"
            )
        for key in sorted(names & {*self.catalog}):
            theirs = self._server.table(*key)
            found += [
                f"{key[0]}.{key[1]}: {line}"
                for line in differences(ours(self.catalog.table(*key)), theirs)
            ]
            history = self.catalog.table(*key)
            self._take(key)
            found += [
                f"{key[0]}.{key[1]}: snapshot: {line}"
                for line in differences(ours(self.catalog.table(*key)), theirs)
            ]
            if history is not None:
                self.catalog = self.catalog.with_table(history)
        if found:
            self.result.different.append(
                {"at": "end", "statement": "(all tables)", "differences": found}
            )
