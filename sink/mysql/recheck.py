"""Tables of the target as they were when they were compared, and a look whether they still are."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from cdc.binlog.table_map import TableMap
from cdc.schema.table import Table
from sink.mysql.compat import check
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.errors import TargetChanged
from sink.mysql.target import definitions, read_table

RECHECK_S = 10.0
"""How often the target's tables are compared with what they were when they were checked."""

Name = tuple[str, str]


class Recheck:
    """Remembers tables by ``(schema, name)`` at the target; empty it looks at nothing."""

    def __init__(self) -> None:
        self._known: dict[Name, int | None] = {}
        self._at = time.monotonic()

    def compare(
        self,
        session: SinkSession,
        entries: Sequence[tuple[Table, TableMap, Name]],
        *,
        upstream_mariadb: bool,
    ) -> None:
        """Compare each upstream table with the one at the target, and remember that.

        Raises TargetTableMissing or TargetIncompatible with the reason.
        """
        self.remember(session, {name for _, _, name in entries})
        for table, stored, (schema, name) in entries:
            found = read_table(session, schema, name)
            check(table, stored, found, same_family=upstream_mariadb == session.target.mariadb)

    def keep(self, names: Collection[Name]) -> None:
        """Forget all other tables: they are looked at no more."""
        self._known = {name: at for name, at in self._known.items() if name in names}

    def remember(self, session: SinkSession, names: Collection[Name]) -> None:
        """Remember tables that will be compared now: a change in between is then noticed later."""
        with mapped(session.settings.address):
            now = definitions(session, {schema for schema, _ in names})
        self._known |= {name: now.get(name) for name in names}

    def look(self, session: SinkSession) -> None:
        """Raise TargetChanged if a table is not what it was; at most every RECHECK_S.

        PyMySQL's errors pass.
        """
        if not self._known or time.monotonic() - self._at < RECHECK_S:
            return
        self._at = time.monotonic()
        now = definitions(session, {schema for schema, _ in self._known})
        for name, checked in self._known.items():
            if now.get(name) != checked:
                raise TargetChanged(
                    "its definition changed at the target",
                    object=".".join(name),
                    hint="delivery recovers by itself and compares it anew",
                )
