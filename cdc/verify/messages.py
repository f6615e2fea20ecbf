"""What a message format must say of itself so that its topics can be compared with the upstream.

A format is one reader of messages and one way of writing values: a row that the upstream has is
written as its messages would have it, and both are compared as texts. One row of
``cdc.verify.formats`` for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cdc.base.ts import Ts
from cdc.schema.session import Session
from cdc.verify.columns import Compared
from cdc.verify.fold_store import TextRow
from cdc.verify.keys import Key
from cdc.verify.layout import ComparedColumns, Name
from cdc.verify.report import short
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

    def sql(self, column: Compared) -> str:
        """SQL for a value of the upstream; ``value`` takes what the server answers."""

    def value(self, column: Compared, text: str) -> str | None:
        """A value that the upstream has as a message would have it; None for null."""

    def told(self, column: Compared, text: str) -> str | None:
        """A value that a message has, where it may be written in several ways."""

    def shown(self, column: Compared, text: str) -> str:
        """A value as people read it."""

    def cell(self, column: Compared, text: str) -> str:
        """A value of a key as the cell of a condition. Raises KeyUnreadable."""


@dataclass(frozen=True, slots=True)
class TopicForm:
    """``name`` is the protocol's. ``changes_apart``: schema changes go to the sink's own topic."""

    name: str
    form: MessageForm
    changes_apart: bool

    def select(self, layout: ComparedColumns) -> str:
        """SQL for all columns of all rows; a condition may follow."""
        values = ("NULL" if c.constant else self.form.sql(c) for c in layout.columns)
        columns = ", ".join(f"{value} AS c{i}" for i, value in enumerate(values))
        return f"SELECT {columns} FROM {layout.table}"

    def values(self, layout: ComparedColumns, row: Row) -> Values:
        """A row of ``select`` as texts, or None for NULL."""
        return tuple(self._value(c, v) for c, v in zip(layout.columns, row, strict=True))

    def told(self, layout: ComparedColumns, row: TextRow) -> Values:
        """A row of a message in the same form; ``MISSING`` of a column that it lacks."""
        return tuple(self._told(c, row.get(c.name, MISSING)) for c in layout.columns)

    def key_cells(self, columns: Sequence[Compared], key: Key) -> Key:
        """Texts of key columns in a message as the cells of a condition. Raises KeyUnreadable."""
        return tuple(self.form.cell(c, text) for c, text in zip(columns, key, strict=True))

    def shown(self, column: Compared, text: str | None) -> str | None:
        """A text of ``values`` or ``told`` as a report has it."""
        if text is None:
            return None
        return "(not told)" if text == MISSING else short(self.form.shown(column, text))

    def _value(self, column: Compared, value: object) -> str | None:
        if column.constant:
            return MISSING
        if value is None:
            return None
        return self.form.value(column, value.decode() if isinstance(value, bytes) else str(value))

    def _told(self, column: Compared, text: str | None) -> str | None:
        return text if text is None or text == MISSING else self.form.told(column, text)


def float_text(column: Compared, text: str) -> str:
    """The shortest digits of a FLOAT's or DOUBLE's text, without an exponent. Raises ValueError.

    A zero has no sign: servers print it without.
    """
    number = float(text)
    single = np.float32(number) if column.single else np.float64(number)
    return np.format_float_positional(single + 0, trim="-")
