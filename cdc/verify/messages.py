"""What a message format must say of itself so that its topics can be compared with the upstream.

A format is one reader of messages and one way of writing a row: a row that the upstream has is
written as its messages would have it (``values``), and both are compared as texts. One row of
``cdc.verify.formats`` for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cdc.base.ts import Ts
from cdc.schema.session import Session
from cdc.verify.columns import Compared
from cdc.verify.fold_store import TextRow
from cdc.verify.keys import Key
from cdc.verify.layout import ComparedColumns, Name
from cdc.verify.sessions import Row

Values = tuple[str | None, ...]

MISSING = "\0missing"
"""In place of a value that there is none of: of a column that a table, or a message, lacks."""


class RowsTold(NamedTuple):
    """Changes of rows: ``rows`` with their older values (``old``; those that changed, or none).

    ``kind`` is INSERT, UPDATE or DELETE; ``key`` names the columns that tell rows apart, as the
    message has it. ``ts``: when they were committed; None where the format's schema changes stand
    among the rows.
    """

    kind: str
    table: Name
    key: tuple[str, ...]
    rows: Sequence[TextRow]
    old: Sequence[TextRow]
    ts: Ts | None = None


class ChangeTold(NamedTuple):
    """A schema change; ``ts`` is None where only the milliseconds ``ms`` are known."""

    sql: str
    session: Session
    ts: Ts | None
    ms: int


class MessageForm(Protocol):
    """How one format's messages show rows and schema changes."""

    def read(
        self, key: bytes | None, value: bytes, session: Session
    ) -> RowsTold | ChangeTold | None:
        """What a record tells; None if it is about neither rows nor schema.

        ``session`` is how the upstream reads its statements, as far as the message does not say it.
        Raises ValueError, KeyError, TypeError or AttributeError for what is not of this format.
        """

    def select(self, layout: ComparedColumns) -> str:
        """SQL for all columns of all rows; a condition may follow."""

    def values(self, layout: ComparedColumns, row: Row) -> Values:
        """A row of ``select`` as texts, or None for NULL."""

    def told(self, layout: ComparedColumns, row: TextRow) -> Values:
        """A row of a message in the same form; ``MISSING`` of a column that it lacks."""

    def shown(self, column: Compared, value: str) -> str:
        """A text of ``values`` as people read it."""

    def key_cells(self, columns: Sequence[Compared], key: Key) -> Key:
        """Texts of key columns in a message as the cells of a condition."""


@dataclass(frozen=True, slots=True)
class TopicForm:
    """``name`` is the protocol's. ``changes_apart``: schema changes go to the sink's own topic."""

    name: str
    form: MessageForm
    changes_apart: bool
