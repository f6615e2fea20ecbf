"""Statements on a server, one after the other, and our catalog beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql
from pymysql.constants import ER

from cdc.base.ts import Ts
from cdc.schema.catalog import Catalog, Database
from cdc.schema.ddl import read_ddl
from cdc.schema.events import session_of_event, statement_text
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.system import is_system
from cdc.schema.tokens import DDLNotUnderstood
from cdc.schema.versions import Versions
from tests import servers
from tests.ddl_diff.compare import ALTERED_AND_RENAMED, Server, differences, ours
from tests.ddl_diff.generate import Generator
from tests.ddl_diff.sweep import Canonical, Sweep
from tests.ddl_diff.tail import Tail
from tests.ddl_diff.words import definitions

Name = tuple[str, str]
# Why, and the tables that are lost by it; None for all.
Refusal = tuple[str, set[Name] | None]

# A bit of the status that ends every answer.
_NO_BACKSLASH_ESCAPES = 1 << 9


@dataclass
class Result:
    """Counts, and each refusal and difference with its statement.

    ``unchanged`` are accepted statements after which the server has all tables as before, and so
    have we: nothing was compared. ``unshown`` are tables that the server itself cannot show,
    ``unsaid`` those whose defaults it did not take from us.
    """

    statements: int = 0
    accepted: int = 0
    equal: int = 0
    unchanged: int = 0
    unshown: set[Name] = field(default_factory=set)
    unsaid: list[str] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    different: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)

    def summary(self) -> dict[str, int]:
        """The figures of the last line."""
        return {
            "statements": self.statements,
            "accepted": self.accepted,
            "equal": self.equal,
            "unchanged": self.unchanged,
            "refused": len(self.refused),
            "different": len(self.different),
            "unshown": len(self.unshown),
            "unsaid": len(self.unsaid),
        }

    @property
    def good(self) -> bool:
        """Nothing differs, and no more than one accepted statement of 2,000 is refused."""
        return not self.different and len(self.refused) * 2000 <= self.accepted


class Run:
    """One server with an execution session, an inspecting session, and our catalog."""

    def __init__(self, db: servers.Database) -> None:
        self._connection = db.connect()
        self._inspector = db.connect()
        mariadb = db.kind == "mariadb"
        version = (*db.version, 0, 0)[:3]
        self._base = Session(mariadb=mariadb, version=version)
        self._server = Server(self._inspector.cursor(), mariadb=mariadb, version=version)
        # It changes its sql_mode.
        self._speaker = db.connect()
        self._canonical = Canonical(self._speaker.cursor(), self._server)
        self._sweep = Sweep(self._server)
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
        """Ends all sessions."""
        self._speaker.close()
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
        """Executes a statement, follows it, and compares what changed there or here."""
        self.result.statements += 1
        if self.trace is not None:
            self.trace.append(statement)
        error = self._execute(statement)
        names, refusals, logged = self._follow()
        if error is not None:
            self.result.rejected.append({"at": label, "statement": statement, "error": error})
        else:
            self.result.accepted += 1
        record = {"at": label, "statement": statement}
        self._compare(record, names, refusals, error, logged=logged)
        if "sql_log_bin" in statement.lower():
            self._unlogged = not self._logs()
        if self._unlogged:
            # What is in no binlog can be followed by nobody.
            self._resync(self._server.tables() | {*self.catalog})

    def _follow(self) -> tuple[set[Name], list[Refusal], bool]:
        """Takes up what the binlog has got: tables that we say are touched, and refusals.

        And whether there was anything.
        """
        names: set[Name] = set()
        refusals: list[Refusal] = []
        logged = False
        for query in self._tail.queries():
            logged = True
            session = session_of_event(self._base, query.schema, query.status(), query.error_code)
            try:
                text = statement_text(query.raw_sql, session)
                seen = read_ddl(text, session)
                names.update(seen.tables)
                for schema in seen.schemas:
                    names.update(k for k in {*self.catalog} if k[0] == schema)
            except DDLNotUnderstood as e:
                refusals.append((e.message, None))
                continue
            versions = Versions(self.catalog, Ts(1))
            failed = versions.advance(Ts(2), seen)
            self.catalog = versions.at(Ts(2))
            if failed is not None:
                refusals.append((failed.message, {*seen.tables} if not seen.schemas else None))
        return names, refusals, logged

    def _logs(self) -> bool:
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT @@sql_log_bin")
            return bool(cursor.fetchone()[0])

    def _execute(self, statement: str) -> str | None:
        try:
            with self._connection.cursor() as cursor:
                # A corpus may have bytes of its client's character set.
                cursor.execute(statement.encode("utf-8", "surrogateescape"))
                while cursor.nextset():
                    pass
        except pymysql.Error as e:
            if not self._connection.open:
                self._connection.ping(reconnect=True)
            return str(e)
        return None

    def _compare(
        self,
        record: dict[str, Any],
        names: set[Name],
        refusals: list[Refusal],
        error: str | None,
        *,
        logged: bool,
    ) -> None:
        changed = self._sweep.changed(names, logged=logged)
        self.result.unshown |= self._sweep.unshown
        found = self._differing_databases()
        # What a refusal names is lost, and said to be; all else has to be right.
        lost = [tables for _, tables in refusals]
        names = {n for n in names if not is_system(n[0])}
        of_lost: list[str] = []
        differing: set[Name] = set()
        for key in sorted(names | changed):
            if self._base.mariadb and ALTERED_AND_RENAMED.match(record["statement"]):
                self._without_lost_foreign(key)
            different = self._differing(key)
            if different:
                differing.add(key)
            if any(tables is None or key in tables for tables in lost):
                of_lost += different
            else:
                found += different
        for reason, _ in refusals:
            self.result.refused.append({**record, "reason": reason, "differences": of_lost})
        if found:
            self.result.different.append({**record, "differences": found})
        elif error is None and not refusals:
            if names or changed:
                self.result.equal += 1
            else:
                self.result.unchanged += 1
        if refusals or found:
            # Others keep what SHOW CREATE TABLE does not say, such as which keys the server made.
            self._resync(names | changed if refusals else differing)

    def _without_lost_foreign(self, key: Name) -> None:
        """Forgets the foreign keys that MariaDB lost: where it renames and copies a table at once.

        Which statements it copies for nobody can tell from the binlog.
        """
        try:
            table = self.catalog.table(*key)
        except DDLNotUnderstood:
            return
        if table is None or not table.foreign_keys:
            return
        theirs = self._server.table(*key) or {}
        if "facts" in theirs and not theirs["facts"]["foreign"]:
            self.catalog = self.catalog.with_table(replace(table, foreign_keys=()))

    def _differing(self, key: Name) -> list[str]:
        try:
            table = self.catalog.table(*key)
        except DDLNotUnderstood as e:
            return [f"{key[0]}.{key[1]}: {e.message}"]
        mine = ours(table)
        if table is not None and table.engine not in self._server.engines:
            # The server takes its own for one that it has not, and the binlog does not say so.
            mine["facts"]["engine"] = "innodb"
        different = differences(mine, self._server.table(*key))
        if table is not None and not different:
            words = self._canonical.differences(table, *key)
            if words is None:
                self.result.unsaid.append(f"{key[0]}.{key[1]}: {definitions(table)}")
            different = words or []
        return [f"{key[0]}.{key[1]}: {line}" for line in different]

    def _differing_databases(self) -> list[str]:
        found: list[str] = []
        for name, theirs in self._sweep.changed_databases().items():
            database = self.catalog.database(name)
            mine = None if database is None else (database.charset, database.collation)
            if mine != theirs:
                found.append(f"database {name}: ours {mine}, server {theirs}")
        return found

    def _resync(self, names: set[Name]) -> None:
        """Takes the server's word, so that one defect is counted once."""
        databases = self._server.databases()
        for name in {*self.catalog.databases} - {*databases}:
            self.catalog = self.catalog.without_database(name)
        for name, defaults in databases.items():
            known = self.catalog.database(name)
            if known is None:
                self.catalog = self.catalog.with_database(Database(name, *defaults))
            elif (known.charset, known.collation) != defaults:
                charset, collation = defaults
                changed = replace(known, charset=charset, collation=collation)
                self.catalog = self.catalog.with_database(changed)
        for key in names | (self._server.tables() ^ {*self.catalog}):
            self._take(key)

    def _take(self, key: Name) -> None:
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
            if not self._reads(key[0], text):
                self.result.unshown.add(key)
                return
            snapshot = {"at": "snapshot", "statement": text}
            self.result.refused.append({**snapshot, "reason": e.message, "differences": []})
            return
        self.catalog = self.catalog.with_table(table)

    def _reads(self, schema: str, text: str) -> bool:
        """Whether the server can read what it shows itself.

        MariaDB shows a backtick in a column that a foreign key refers to as it is.
        """
        self._inspector.select_db(schema)
        with self._inspector.cursor() as cursor:
            try:
                cursor.execute("PREPARE shown FROM %s", (text,))
            except pymysql.Error as e:
                return e.args[0] != ER.PARSE_ERROR
            cursor.execute("DEALLOCATE PREPARE shown")
        return True

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
            found += self._differing(key)
            history = self.catalog.table(*key)
            self._take(key)
            if key not in self.result.unshown:
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
