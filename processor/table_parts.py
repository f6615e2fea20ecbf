"""From which tables of which servers the rows of an upstream's tables are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.logical.parts import PartsRead
from cdc.schema.table import Table
from cdc.snapshot.servers import SourceServers
from cdc.source.pulled import PulledLogs


class TableParts(Protocol):
    """As of :class:`cdc.logical.parts.PartsRead`."""

    def begin(self, since: Mapping[str, Ts]) -> None:
        """Whoever reads from now on sees all up to these ts of the nodes' logs."""

    def known(self, table: Table) -> tuple[Table, ...]:
        """The tables of servers that have a table's rows, as far as it is known."""

    def of(self, table: Table) -> tuple[Table, ...]:
        """The same, to be read now. Raises PartsChanging."""

    def same(self, table: str) -> bool:
        """Whether those of ``schema.table`` are as they were when they were asked for."""


class OwnTables:
    """Of an upstream whose tables are tables of its servers: their log tells all of them."""

    def begin(self, since: Mapping[str, Ts]) -> None:
        """Nothing is looked for."""

    def known(self, table: Table) -> tuple[Table, ...]:
        """The table itself."""
        return (table,)

    of = known

    def same(self, table: str) -> bool:
        """It has no other definition than its own."""
        return True


def parts_of(servers: SourceServers, log: ChangeLog, pulled: PulledLogs) -> TableParts:
    """Those of an upstream; ``log`` and ``pulled`` stay their owner's."""
    patterns = servers.logical_tables
    return PartsRead(patterns, log, pulled.nodes) if patterns else OwnTables()


def guesses(
    servers: SourceServers, parts: TableParts, tables: Iterable[Table], where: str
) -> dict[str, int]:
    """By ``schema.table`` how many rows its servers guess that a table has."""
    own = {table.full_name: parts.known(table) for table in tables}
    found = servers.row_guesses((part for several in own.values() for part in several), where)
    return {name: sum(found[part.full_name] for part in several) for name, several in own.items()}
