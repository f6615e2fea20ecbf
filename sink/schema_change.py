"""What a sink needs to carry out schema changes, and what it says of them.

The owner decides when a change runs; the sink knows how, and keeps in its own ledger, where the
data is, what has been done. The ledger is the truth: after a crash the owner asks it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cdc.base.position import Position, TransactionName, stand
from cdc.base.ts import Ts
from cdc.binlog.query import StatusVariables
from cdc.schema.catalog import Catalog
from cdc.schema.session import Session

TableName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Logged:
    """A statement as the log has it, for sinks that write binlogs.

    ``event`` is the QUERY event, ``form`` the FORMAT_DESCRIPTION event of the upstream's file that
    it was in, both whole; ``sql`` is the text that was read of it. ``transaction`` is what the
    upstream calls it, None if that is not known.
    """

    sql: str
    event: bytes
    form: bytes
    transaction: TransactionName | None


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One DDL as the upstream executed it.

    ``kind`` are the statement's own words (``alter table``). ``tables`` are the tables that it
    touches, ``(schema, name)``, ``schemas`` the databases. ``replicated`` are those of ``tables``
    that the changefeed delivers, before or after it. ``before`` and ``after`` are the upstream's
    schema on both sides of it, complete for what it touches. ``session`` says how the text is read,
    ``status`` is what the QUERY event carried (sql_mode, character sets, time zone), ``time_s``
    the event's time in seconds, which CURRENT_TIMESTAMP of the statement meant. ``logged`` is the
    statement as the log has it; where ``sql`` is another text, it is what the statement meant.
    ``any_order``: the target may have the columns of ``before`` and ``after`` in another order.
    """

    ts: Ts
    sql: str
    kind: str
    tables: tuple[TableName, ...]
    schemas: tuple[str, ...]
    replicated: tuple[TableName, ...]
    session: Session
    status: StatusVariables
    time_s: int
    before: Catalog
    after: Catalog
    logged: Logged | None = None
    any_order: bool = False


class Recorded(StrEnum):
    """What a sink's ledger says of a schema change."""

    EXECUTING = "executing"
    DONE = "done"
    SKIPPED = "skipped"


def proven(change: SchemaChange, positions: Iterable[Position]) -> bool:
    """Whether the ledger of rows shows that a change has run: rows behind it were delivered.

    Nothing of a table is delivered behind a change that has not run, so this holds also where the
    record of the change is gone: it is forgotten once a checkpoint has passed it, and a checkpoint
    may be lost.
    """
    names = [f"{schema}.{name}".lower() for schema, name in change.replicated]
    stands = [stand(at) for at in positions]
    return bool(names) and all(any(s.of(n).ts > change.ts for s in stands) for n in names)


class SchemaChanger(Protocol):
    """Carries out schema changes of one changefeed in one epoch.

    Methods may be called from several threads at once, for changes that touch different tables.
    """

    def take_over(self) -> Mapping[Ts, Recorded]:
        """Fence changers of older epochs; what the ledger says, by ts.

        Called before anything else, and before the changefeed's rows are delivered in this epoch.
        Raises FencedEpoch if the ledger has a newer epoch.
        """

    def ties(self) -> Iterable[tuple[str, str]]:
        """Pairs of the changefeed's tables (``schema.table``, the upstream's names) that the target
        ties together: child and parent of a foreign key. Such tables pass a change together.
        """

    def execute(self, change: SchemaChange) -> None:
        """Carry the change out exactly once; returns when it is done and recorded so.

        All rows of its tables below its ts are delivered, none above. May be called again for the
        same change after an error or a crash: what the target shows decides what remains to be
        done. Raises definite errors where the target can never follow, transient ones for the
        world's.
        """

    def skip(self, change: SchemaChange) -> None:
        """Record that the operator (or the filter) wants it left out; the target stays as it is."""

    def forget_below(self, ts: Ts) -> None:
        """Changes at or below ``ts`` will not be asked for any more."""

    def close(self) -> None:
        """Give connections back; a statement that runs is left to its server."""
