"""Databases and tables that a target does not have, made before the first rows of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from cdc.base.ids import FeedId
from cdc.base.ts import Ts
from cdc.schema.definition import TableDefinition
from cdc.schema.session import Session
from sink.errors import SinkOptionNotSupported


class NewTables(Protocol):
    """Makes what a target does not have, and leaves alone what is there.

    ``session``: how the upstream's server reads the definitions' texts.
    """

    def missing(self, definitions: Iterable[TableDefinition]) -> list[TableDefinition]:
        """Those whose table the target does not have."""

    def check(self, definitions: Iterable[TableDefinition], session: Session) -> None:
        """Raise what forbids to make one of these, as far as that shows without doing so."""

    def make(
        self,
        feed: FeedId,
        epoch: int,
        definitions: Sequence[TableDefinition],
        session: Session,
        ts: Ts,
        large: Collection[str] = (),
    ) -> None:
        """Make those that the target does not have, as they were at ``ts``.

        Those of ``large`` (``schema.table`` of the upstream) without indexes that only make reading
        faster, which ``complete`` adds behind their rows.

        Called in each epoch while rows as of ``ts`` are not delivered, behind its
        ``SchemaChanger.take_over`` and before any of its rows or changes: what a crash has left
        undone is done then. A table whose rows the ledger has beyond ``ts`` is not made again, as a
        change may have dropped it since. Raises FencedEpoch if the ledger has a newer epoch, what
        ``check`` raises, and what the target says.
        """

    def complete(self, feed: FeedId, epoch: int, ts: Ts) -> None:
        """Add the indexes that tables of ``make`` still lack.

        Called behind all rows as of ``ts`` and before any change; again, if it did not end. Raises
        FencedEpoch, and what the target says.
        """


def none_made() -> NewTables:
    """Of a sink that is no database: raises SinkOptionNotSupported."""
    raise SinkOptionNotSupported(
        "this sink is no database, so there are no tables to make",
        object="snapshot.create-tables",
        hint="leave it out; it is for MySQL and MariaDB",
    )
