"""The key by which a table is cut, and ranges of it as SQL that its server answers from the index.

A border is one SQL literal for each column of the key. All comparing is left to the server: a row
is above a border or not, whatever order the collation has, so two ranges that share a border never
share a row and never lose one between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cdc.base.errors import DefiniteError
from cdc.base.redaction import user_data
from cdc.schema.table import Column, Generated, Index, Table
from cdc.schema.tokens import quoted

SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES',"
    " sql_select_limit = 18446744073709551615",
    "SET SESSION wait_timeout = 2147483",
)
"""What a session must run before borders are found or used in it.

Borders of a TIMESTAMP are in UTC; zero and impossible dates are constants like any other; and a
limit that the server gives to every session would cut rows off, or end a session that waits while
a large table is read over another.
"""

Border = tuple[str, ...]

# What a server prints of times, numbers and addresses; none of it needs an escape.
_PLAIN = re.compile(r"[0-9A-Za-z:. +-]*\Z")


class BorderUnreadable(DefiniteError):
    """The server shows a key in a form that no border can be made of."""

    code = "TG:ErrSnapshotKeyUnreadable"


class BorderForm(Enum):
    """How a value of a key column is fetched, and written as a literal."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    MEMBERS = "members"
    TIME = "time"
    TEXT = "text"
    BYTES = "bytes"


_FORMS = {
    name: form
    for form, names in {
        BorderForm.INTEGER: ("tinyint", "smallint", "mediumint", "int", "bigint", "bit"),
        BorderForm.DECIMAL: ("decimal",),
        BorderForm.MEMBERS: ("enum", "set"),
        BorderForm.TIME: ("date", "time", "datetime", "timestamp", "year", "uuid"),
        BorderForm.TEXT: ("char", "varchar"),
        BorderForm.BYTES: ("binary", "varbinary"),
    }.items()
    for name in names
}


@dataclass(frozen=True, slots=True)
class HandleColumn:
    """A column of a handle key. ``charset`` counts for texts; ``name`` is in backticks.

    ``descending``: the index has it so, and ranges go that way.
    """

    name: str
    form: BorderForm
    charset: str = ""
    plain_integer: bool = False
    descending: bool = False

    @property
    def cell(self) -> str:
        """SQL for a value as a text that ``literal`` takes."""
        if self.form in (BorderForm.TEXT, BorderForm.BYTES):
            return f"HEX({self.name})"
        if self.form is BorderForm.MEMBERS:
            # Not + 0: some servers add in floating point, which has not the 64 members of a SET.
            return f"CAST({self.name} AS UNSIGNED)"
        if self.form is BorderForm.INTEGER and not self.plain_integer:
            return f"{self.name} + 0"
        return f"CAST({self.name} AS CHAR)"

    def sign(self, above: bool) -> str:
        """The operator for what lies strictly behind a value in the index, or before it."""
        return ">" if above != self.descending else "<"

    def literal(self, text: str) -> str:
        """A value as a constant that compares as the column does.

        A text has the column's character set and no collation of its own, so that of the column
        decides. Raises BorderUnreadable.
        """
        if self.form is BorderForm.TEXT:
            return f"_{self.charset} X'{text}'"
        if self.form is BorderForm.BYTES:
            return f"X'{text}'"
        if not text or not _PLAIN.match(text):
            raise BorderUnreadable(
                f"a value of the key column {self.name} is shown as {user_data(repr(text[:60]))}",
                hint="leave the table out of the snapshot, and report it",
            )
        if self.form is BorderForm.TIME:
            return f"'{text}'"
        return text


@dataclass(frozen=True, slots=True)
class Handle:
    """A key that tells rows apart and by which ranges can be read from its index."""

    schema: str
    table: str
    columns: tuple[HandleColumn, ...]

    @property
    def source(self) -> str:
        """The table's name in SQL."""
        return quoted(self.schema, self.table)

    @property
    def is_integer(self) -> bool:
        """Whether the key is one whole number, so that borders can be reckoned."""
        return len(self.columns) == 1 and self.columns[0].plain_integer

    @property
    def cells(self) -> str:
        """SQL for the key as texts."""
        return ", ".join(c.cell for c in self.columns)

    def order(self, backwards: bool = False) -> str:
        """SQL to sort by the key, in the order of its index or against it."""
        return ", ".join(
            c.name + (" DESC" if c.descending != backwards else "") for c in self.columns
        )

    def border(self, row: tuple[Any, ...]) -> Border:
        """The border at a row of ``cells``."""
        return tuple(c.literal(_text(v)) for c, v in zip(self.columns, row, strict=True))

    def within(self, low: Border | None, high: Border | None) -> str:
        """SQL condition for keys above ``low`` and up to ``high``; None is open.

        Columns in which both borders have one value are compared for equality, so that the index
        is used below them. ``1 = 1`` if both are open.
        """
        same = 0
        if low is not None and high is not None:
            # The last column stays: its two sides are the range.
            while same < len(low) - 1 and low[same] == high[same]:
                same += 1
        parts = [f"{c.name} = {v}" for c, v in zip(self.columns[:same], low or (), strict=False)]
        if low is not None:
            parts.append(self._beyond(low, same, above=True))
        if high is not None:
            parts.append(self._beyond(high, same, above=False))
        return " AND ".join(parts) or "1 = 1"

    def _beyond(self, border: Border, start: int, above: bool) -> str:
        *front, (column, value) = list(zip(self.columns, border, strict=True))[start:]
        # Borders belong to the range below them.
        sign = column.sign(above)
        condition = f"{column.name} {sign if above else sign + '='} {value}"
        for column, value in reversed(front):
            name, sign = column.name, column.sign(above)
            condition = f"({name} {sign} {value} OR ({name} = {value} AND {condition}))"
        if front:
            # Said once more for the optimizer, which may find no range in the alternatives.
            condition = (
                f"{front[0][0].name} {front[0][0].sign(above)}= {front[0][1]} AND {condition}"
            )
        return condition


def handle_of(table: Table) -> Handle | None:
    """The key by which ``table`` is cut; None if it is read as one chunk.

    That is where no key tells rows apart, and where its columns make no good borders: floating
    point numbers, which have no exact text; an ENUM or SET in front, which the server cuts without
    the index; prefixes of a column; generated and MariaDB's address columns.
    """
    index = _index(table)
    if index is None:
        return None
    columns = []
    for at, name in enumerate(index.columns):
        # One column is read backwards as well as forwards.
        turned = len(index.columns) > 1 and any(index.descending[at : at + 1])
        column = _column(table.columns[table.positions[name.lower()]], turned)
        if column is None or (at == 0 and column.form is BorderForm.MEMBERS):
            return None
        columns.append(column)
    return Handle(table.schema, table.name, tuple(columns))


def _index(table: Table) -> Index | None:
    """An index of the handle key that holds its columns whole."""
    for index in table.indexes:
        if not (index.primary or index.unique) or "" in index.columns:
            continue
        ordinals = tuple(table.positions[name.lower()] for name in index.columns)
        if ordinals == table.handle_key and not any(index.prefixes):
            return index
    return None


def _column(column: Column, descending: bool) -> HandleColumn | None:
    form = _FORMS.get(column.data_type)
    if form is None or column.generated is Generated.VIRTUAL:
        return None
    charset = (column.charset or "").lower()
    if form is BorderForm.TEXT and charset in ("", "binary"):
        form = BorderForm.BYTES
    whole = form is BorderForm.INTEGER and column.data_type != "bit"
    return HandleColumn(quoted(column.name), form, charset, whole, descending)


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)
