"""How the values of a column are compared: one SQL text that every server answers alike.

MySQL and MariaDB of all versions that we read and write print integers, decimals, times and
doubles alike when asked by these expressions; text and bytes are compared by their bytes. No text
holds a comma or a tilde, so a row is its texts with commas between and a tilde for NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cdc.schema.tokens import quoted

# Values of longer columns are hashed on their own, so that a row's text stays small.
_LONG_CHARS = 1000


class ValueForm(StrEnum):
    """What a value is, for comparing and printing it."""

    NUMBER = "number"
    YEAR = "year"
    DECIMAL = "decimal"
    FLOAT = "float"
    TIME = "time"
    TEXT = "text"
    BYTES = "bytes"
    VECTOR = "vector"
    JSON = "json"
    MEMBERS = "members"
    PLAIN = "plain"
    MIXED = "mixed"


_FORMS: dict[ValueForm, tuple[str, ...]] = {
    ValueForm.NUMBER: ("tinyint", "smallint", "mediumint", "int", "bigint", "bit"),
    ValueForm.YEAR: ("year",),
    ValueForm.DECIMAL: ("decimal",),
    ValueForm.FLOAT: ("float", "double"),
    ValueForm.TIME: ("date", "time", "datetime", "timestamp"),
    ValueForm.TEXT: ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
    ValueForm.BYTES: (
        *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
        *("multipolygon", "geometrycollection", "geomcollection"),
    ),
    ValueForm.VECTOR: ("vector",),
    ValueForm.JSON: ("json",),
    ValueForm.MEMBERS: ("enum", "set"),
}
_FORM_OF = {name: form for form, names in _FORMS.items() for name in names}
_LONG_TYPES = frozenset(
    {"text", "mediumtext", "longtext", "blob", "mediumblob", "longblob", "tinytext", "tinyblob"}
)
# A key of these forms has an order that bounds can be written in.
_ORDERED = frozenset(
    {ValueForm.NUMBER, ValueForm.DECIMAL, ValueForm.TIME, ValueForm.TEXT, ValueForm.BYTES}
)


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """A column as a server's ``information_schema`` describes it.

    ``length`` is in characters; ``scale`` the decimals of numbers, the fraction of times.
    ``default`` is the server's text for it, None for none; ``computed``: the value, or the default,
    is an expression.
    """

    name: str
    data_type: str
    column_type: str
    charset: str | None = None
    collation: str | None = None
    length: int | None = None
    scale: int | None = None
    virtual: bool = False
    nullable: bool = True
    default: str | None = None
    computed: bool = False

    @property
    def form(self) -> ValueForm:
        """What its values are."""
        return _FORM_OF.get(self.data_type, ValueForm.PLAIN)

    @property
    def single(self) -> bool:
        """Whether it is a FLOAT of four bytes."""
        return self.data_type == "float"


@dataclass(frozen=True, slots=True)
class Compared:
    """A column of both sides: ``form`` says how it is compared.

    ``text`` is SQL for the text that must be equal, never ``~`` and without commas; ``shown`` is
    SQL for people. A ``loose`` column has no text that servers agree on: its values are fetched
    and compared here, as JSON documents. ``ordered``: both sides sort its values alike.
    ``constant``: the texts are of one value, which all rows of a table without the column have.
    ``info`` is the column upstream, of the first table where there are several.
    """

    name: str
    form: ValueForm
    text: str
    shown: str
    info: ColumnInfo
    loose: bool = False
    single: bool = False
    ordered: bool = False
    constant: bool = False

    @property
    def sql(self) -> str:
        """The column's name in backticks."""
        return quoted(self.name)

    @property
    def marked(self) -> str:
        """``text``, or ``~`` for NULL. It is NULL only if the server could not make the text."""
        return self.text if self.constant else f"IF({self.sql} IS NULL, '~', {self.text})"

    def filled(self, text: str, shown: str | None) -> Compared:
        """Of a table that lacks it: ``text`` is what ``marked`` gives, ``shown`` the value."""
        known = "NULL" if shown is None else f"CONVERT(X'{shown.encode().hex()}' USING utf8mb4)"
        return replace(self, text=f"'{text}'", shown=known, constant=True)


def compared(*columns: ColumnInfo, value: str = "") -> Compared:
    """How a column is compared, which is on all sides: of one or more tables, and the target.

    ``value``: SQL for the value that is looked at in place of the column's.
    """
    name = columns[0].name
    q = value or quoted(name)
    forms = {c.form for c in columns}
    if forms == {ValueForm.JSON, ValueForm.TEXT}:
        shown = f"CAST({q} AS CHAR)"
        return Compared(name, ValueForm.JSON, "''", shown, columns[0], loose=True)
    form = forms.pop() if len(forms) == 1 else ValueForm.MIXED
    return Compared(
        name,
        form,
        _text(q, form, columns),
        _shown(q, form),
        columns[0],
        single=any(c.single for c in columns),
        ordered=form in _ORDERED and len({_collation(c) for c in columns}) == 1,
    )


def alone(column: ColumnInfo) -> Compared:
    """A column that has no other side of its kind."""
    return compared(column)


def _text(q: str, form: ValueForm, columns: Sequence[ColumnInfo]) -> str:
    if form in (ValueForm.NUMBER, ValueForm.YEAR):
        return f"({q} + 0)"
    if form is ValueForm.FLOAT:
        # The text of a DOUBLE reads back as the same number; that of a FLOAT does not. A sum takes
        # the sign from zero, which some servers print and others do not.
        return f"({q} + 0e0)"
    if form is ValueForm.DECIMAL:
        scales = {c.scale or 0 for c in columns}
        same = len(scales) == 1
        return f"CAST({q} AS CHAR)" if same else f"CAST({q} AS DECIMAL(65,{max(scales)}))"
    if form is ValueForm.TIME:
        return _time(q, columns)
    if form is ValueForm.TEXT:
        same = len({_charset(c) for c in columns}) == 1
        return _bytes(q if same else f"CONVERT({q} USING utf8mb4)", _long(columns))
    if form in (ValueForm.BYTES, ValueForm.VECTOR):
        return _bytes(q, _long(columns))
    if form is ValueForm.JSON:
        return f"SHA2(CAST({q} AS CHAR), 256)"
    if form is ValueForm.MEMBERS and len({c.column_type for c in columns}) == 1:
        return f"({q} + 0)"
    return _bytes(f"CONVERT({q} USING utf8mb4)", _long(columns))


def _shown(q: str, form: ValueForm) -> str:
    if form is ValueForm.FLOAT:
        return f"({q} + 0e0)"
    if form in (ValueForm.BYTES, ValueForm.VECTOR):
        return f"CONCAT('0x', HEX({q}))"
    if form in (ValueForm.TEXT, ValueForm.MEMBERS, ValueForm.MIXED):
        return f"CONVERT({q} USING utf8mb4)"
    return f"({q} + 0)" if form is ValueForm.NUMBER else f"CAST({q} AS CHAR)"


def _time(q: str, columns: Sequence[ColumnInfo]) -> str:
    if len({(c.data_type, c.scale or 0) for c in columns}) == 1:
        return f"CAST({q} AS CHAR)"
    kind = "TIME" if columns[0].data_type == "time" else "DATETIME"
    return f"CAST(CAST({q} AS {kind}(6)) AS CHAR)"


def _bytes(value: str, long: bool) -> str:
    return f"SHA2({value}, 256)" if long else f"HEX({value})"


def _long(columns: Sequence[ColumnInfo]) -> bool:
    return any(c.data_type in _LONG_TYPES or (c.length or 0) > _LONG_CHARS for c in columns)


def _collation(column: ColumnInfo) -> str:
    return str(column.collation).replace("utf8mb3_", "utf8_")


def _charset(column: ColumnInfo) -> str:
    return "utf8mb3" if column.charset == "utf8" else str(column.charset)
