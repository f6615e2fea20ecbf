"""An upstream server whose statements become schema changes, as the owner makes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pymysql

from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.events import session_of_event, statement_text
from cdc.schema.session import Session
from cdc.schema.snapshot import catalog as catalog_of
from sink.schema_change import SchemaChange, TableName
from tests.ddl_diff.tail import Tail

_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys", "tidegate")


class Upstream:
    """``run`` executes a statement there and gives what the binlog says of it as changes."""

    def __init__(
        self, db: Any, replicates: Callable[[TableName], bool] = lambda name: True
    ) -> None:
        self.db = db
        self._replicates = replicates
        self._connection = db.connect()
        self.mariadb = db.kind == "mariadb"
        version = (*db.version, 0, 0)[:3]
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT @@lower_case_table_names, @@explicit_defaults_for_timestamp")
            lower, explicit = cursor.fetchone()
        self.base = Session(
            mariadb=self.mariadb,
            version=version,
            explicit_defaults_for_timestamp=bool(explicit),
            lower_case_table_names=int(lower),
        )
        self.catalog = self._snapshot()
        self._tail = Tail(db)
        self.ts = 1000

    def _snapshot(self) -> Catalog:
        databases, tables = {}, {}
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT schema_name, default_character_set_name, default_collation_name"
                " FROM information_schema.schemata"
            )
            for name, charset, collation in cursor.fetchall():
                if name not in _SYSTEM:
                    databases[name] = {"charset": charset, "collation": collation}
            cursor.execute(
                "SELECT table_schema, table_name FROM information_schema.tables"
                " WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"
            )
            for schema, name in cursor.fetchall():
                if schema in databases:
                    quoted = ".".join("`" + n.replace("`", "``") + "`" for n in (schema, name))
                    cursor.execute(f"SHOW CREATE TABLE {quoted}")
                    tables[f"{schema}.{name}"] = cursor.fetchone()[1]
        kind = "mariadb" if self.mariadb else "mysql"
        version = ".".join(map(str, self.base.version))
        return catalog_of(
            {
                "ts": 0,
                "server": {"kind": kind, "version": version},
                "databases": databases,
                "tables": tables,
            }
        )

    def execute(self, statement: str) -> None:
        """Run it in the upstream's session. PyMySQL's errors pass."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            while cursor.nextset():
                pass

    def run(self, *statements: str) -> list[SchemaChange]:
        """Run them; all changes since the last call. PyMySQL's errors pass."""
        for statement in statements:
            self.execute(statement)
        return self.changes()

    def changes(self) -> list[SchemaChange]:
        """Statements of the binlog since the last call that touch tables or databases."""
        found = []
        for query in self._tail.queries():
            status = query.status()
            session = session_of_event(self.base, query.schema, status, query.error_code)
            text = statement_text(query.raw_sql, session)
            seen = read_ddl(text, session)
            before, self.catalog = self.catalog, apply(self.catalog, seen)
            if not seen.tables and not seen.schemas:
                continue
            self.ts += 1
            found.append(
                SchemaChange(
                    self.ts,
                    text,
                    seen.kind,
                    seen.tables,
                    seen.schemas,
                    tuple(t for t in seen.tables if self._replicates(t)),
                    session,
                    status,
                    int(time.time()),
                    before,
                    self.catalog,
                )
            )
        return found

    def restart(self) -> None:
        """Begin anew with what the server shows, after something that is not followed."""
        self.catalog = self._snapshot()
        self._tail = Tail(self.db)

    def close(self) -> None:
        """End the session."""
        self._connection.close()


def rejected(call: Callable[[], object]) -> str | None:
    """What the server says against it, None if it accepts."""
    try:
        call()
    except pymysql.Error as error:
        return str(error)
    return None
