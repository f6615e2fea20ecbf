"""How rows of a part of a logical table, stored by one definition, become rows of the other.

While a schema change goes from node to node, parts have columns that the logical table does not
have yet, or lack some that it still has. Such columns are left out, or filled with the default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import DefiniteError
from cdc.binlog.cursor import lenenc_int
from cdc.binlog.events import EventType
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH
from cdc.binlog.rows_header import RowsHeader
from cdc.binlog.table_map import TableMap
from cdc.kernels import charsets, recode
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import shape as K  # noqa: N812
from cdc.logical.column_change import (
    BYTES_NAMES,
    INTEGER_NAMES,
    TEXT_NAMES,
    UTF8_NAMES,
    ColumnChange,
    Encoders,
)
from cdc.logical.errors import ShapeUnclear, ShapeValueLost
from cdc.rows.agreement import check
from cdc.schema.table import Column, Table
from cdc.snapshot.images import RowImages
from cdc.snapshot.rows_reader import RowBlock
from cdc.snapshot.table_map import table_map
from cdc.source.table_index import width

HIDDEN_KEYS: Final = frozenset({"_drds_implicit_id_"})
"""Columns, in lower case, that a coordinator keeps in parts and shows to nobody."""

_ZEROS: Final = {
    **dict.fromkeys((*INTEGER_NAMES, "decimal", "float", "double"), "0"),
    **dict.fromkeys((*TEXT_NAMES, *BYTES_NAMES), ""),
}
_NO_BYTES: Final = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """``stored`` is the TABLE_MAP of rows as they become, with the logical table's names.

    ``columns`` int64[:, kernels.shape.S_SIZE] and ``fills`` uint8[:] are what the kernel takes,
    with the ``widths`` int64[:] of columns as they are; None where rows are right as they are.
    ``encoders`` uint32[:] are the character sets that columns become.
    """

    logical: Table
    stored: TableMap
    columns: NDArray[np.int64] | None = None
    widths: NDArray[np.int64] | None = None
    fills: NDArray[np.uint8] = field(default_factory=lambda: _NO_BYTES)
    encoders: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))

    @property
    def same(self) -> bool:
        """Whether rows are right as they are."""
        return self.columns is None

    def rows(self, data: NDArray[np.uint8], at: int, length: int, where: str) -> bytes:
        """The rows events of ``data[at:][:length]`` (uint8) as they become.

        Raises ShapeValueLost, ShapeUnclear; ``where`` is their position.
        """
        assert self.columns is not None
        assert self.widths is not None
        starts = np.empty((len(self.widths), 2), np.int64)
        spare = np.empty(recode.DIGITS, np.uint8)
        room = 2 * length + 4096
        while True:
            out = np.empty(room, np.uint8)
            error, size = K.shape(
                data, at, at + length, self.widths, starts, self.columns, self.fills,
                charsets.tables(), self.encoders, spare, out,
            )  # fmt: skip
            if error == L.OK:
                return out[:size].tobytes()
            if error != K.ROOM:
                raise self._error(error, where)
            room *= 2

    def _error(self, error: int, where: str) -> DefiniteError:
        name = self.logical.full_name
        if error & ((1 << K.COLUMN_AT) - 1) == K.VALUE:
            column = self.logical.columns[error >> K.COLUMN_AT]
            return ShapeValueLost(
                f"a row has a value that column {column.name} {column.column_type} has no place for"
                " before the schema change",
                object=name,
                position=where,
                hint="create the upstream anew behind the change's mark, and its changefeeds with"
                " --snapshot; write no such values while a change goes over parts",
            )
        what = L.MESSAGES.get(error, f"rows events are malformed ({error})")
        return ShapeUnclear(what, object=name, position=where, hint="binlog_row_image must be FULL")


def shape(
    stored: TableMap,
    physical: Table,
    logical: Table,
    server_kind: str,
    number: int = 0,
    renamed: Mapping[str, str] | None = None,
) -> Shape:
    """How rows that ``stored`` describes, of ``physical``, become rows of ``logical``.

    ``number`` is what the TABLE_MAP calls the table. ``renamed``: by lower-case names of columns
    of ``physical`` those that they have in ``logical``. Raises ShapeUnclear, and SchemaMismatch
    where ``stored`` is not of ``physical``.
    """
    check(physical, stored)
    if renamed:
        # Names of columns are no part of how rows are told by number.
        stored = replace(stored, optional=b"")
        physical = _named_before(physical, renamed, logical)
    named = replace(stored, table_id=number, schema=logical.schema, name=logical.name)
    if _alike(physical.columns, logical.columns):
        return Shape(logical, named)
    _check_names(physical, logical)
    base = table_map(replace(logical, columns=()), number, server_kind)
    types, metas, nullable = bytearray(), [], []
    columns = np.zeros((len(logical.columns), K.S_SIZE), np.int64)
    fills, encoders = bytearray(), Encoders()
    for c, column in enumerate(logical.columns):
        at = physical.positions.get(column.name.lower())
        row = columns[c]
        if at is not None and _same(physical.columns[at], column):
            code, meta, null = stored.types[at], stored.metadata[at], stored.nullable[at]
            row[[K.S_OP, K.S_FROM]] = K.COPY, at
        else:
            code, meta = _stored(logical, column, server_kind)
            null = column.nullable
            if at is not None:
                row[K.S_FROM] = at
                was = stored.types[at], stored.metadata[at]
                changed = ColumnChange(physical.columns[at], column, was, (code, meta))
                changed.plan(row, encoders, logical.full_name)
            else:
                _fill(row, column, fills, logical, server_kind)
        types.append(code)
        metas.append(meta)
        nullable.append(null)
    made = replace(
        base, flags=stored.flags, types=bytes(types), metadata=tuple(metas),
        nullable=tuple(nullable), schema=logical.schema, name=logical.name, optional=b"",
    )  # fmt: skip
    widths = [width(code, meta) for code, meta in zip(stored.types, stored.metadata, strict=True)]
    return Shape(
        logical,
        made,
        columns,
        np.array(widths, np.int64),
        np.frombuffer(bytes(fills), np.uint8) if fills else _NO_BYTES,
        encoders.all(),
    )


def _named_before(physical: Table, renamed: Mapping[str, str], logical: Table) -> Table:
    """A part with its columns called as before they were renamed."""
    names = [renamed.get(c.name.lower(), c.name) for c in physical.columns]
    if len({name.lower() for name in names}) < len(names):
        raise ShapeUnclear(
            f"columns of its part {physical.full_name} were renamed to one another's names",
            object=logical.full_name,
            hint="write nothing to a table while its columns exchange their names",
        )
    columns = tuple(c.but(name=n) for c, n in zip(physical.columns, names, strict=True))
    return replace(physical, columns=columns, indexes=())


def shown(table: Table) -> Table:
    """A table without the columns that only its coordinator knows, and keys over them."""
    hidden = {c.name for c in table.columns if c.name.lower() in HIDDEN_KEYS}
    if not hidden:
        return table
    return replace(
        table,
        columns=tuple(c for c in table.columns if c.name not in hidden),
        indexes=tuple(i for i in table.indexes if not hidden.intersection(i.columns)),
    )


def readable_as(part: Table, logical: Table) -> bool:
    """Whether a SELECT of the columns of ``logical`` from its part gives what ``logical`` has.

    Columns may be in another order there, and there may be more of them.
    """
    at = part.positions
    return all(
        (place := at.get(c.name.lower())) is not None and _same(part.columns[place], c)
        for c in logical.columns
    )


def _alike(physical: Collection[Column], logical: Collection[Column]) -> bool:
    return len(physical) == len(logical) and all(
        a.name.lower() == b.name.lower() and _same(a, b)
        for a, b in zip(physical, logical, strict=True)
    )


def _same(a: Column, b: Column) -> bool:
    """Whether values of both are the same bytes with the same meaning."""
    if a.data_type in INTEGER_NAMES and a.data_type == b.data_type:
        # A display width says nothing of what is stored.
        return a.unsigned == b.unsigned
    return (a.column_type, a.charset, a.unsigned, a.generated, a.compressed) == (
        b.column_type, b.charset, b.unsigned, b.generated, b.compressed,
    )  # fmt: skip


def _check_names(physical: Table, logical: Table) -> None:
    """Raises ShapeUnclear where a column may have been renamed: its values would be lost."""
    more = [
        c.name
        for c in physical.columns
        if c.name.lower() not in logical.positions and c.name.lower() not in HIDDEN_KEYS
    ]
    fewer = [c.name for c in logical.columns if c.name.lower() not in physical.positions]
    if more and fewer:
        raise ShapeUnclear(
            f"its part {physical.full_name} has {', '.join(more)}, which it does not have, and "
            f"lacks {', '.join(fewer)}: they may have been renamed",
            object=logical.full_name,
            hint="write nothing to a table while its columns are renamed or exchanged",
        )


def _stored(logical: Table, column: Column, server_kind: str) -> tuple[int, int]:
    made = table_map(replace(logical, columns=(column,)), 0, server_kind)
    return made.types[0], made.metadata[0]


def _fill(
    row: NDArray[np.int64], column: Column, fills: bytearray, logical: Table, server_kind: str
) -> None:
    """What a row has in a column that its part lacks; into ``row``, the constant into ``fills``."""
    if column.default is None and column.nullable:
        row[K.S_OP] = K.NULL
        return
    text = column.default if column.default is not None else _ZEROS.get(column.data_type)
    if text is None or column.default_expression or column.generated:
        raise ShapeUnclear(
            f"a part of it lacks column {column.name}, whose value is not known without its row",
            object=logical.full_name,
            hint="give the column a literal as its default before it is dropped",
        )
    value = _constant(column, text, logical, server_kind)
    row[[K.S_OP, K.S_LOW, K.S_HIGH]] = K.FILL, len(fills), len(value)
    fills += value


def _constant(column: Column, text: str, logical: Table, server_kind: str) -> bytes:
    """A value as it lies in a row image, made of the text of its default."""
    try:
        raw = text.encode(_codec(column))
    except UnicodeEncodeError:
        raise ShapeUnclear(
            f"a part of it lacks column {column.name}, whose default is not ASCII",
            object=logical.full_name,
            hint="give the column another default before it is dropped",
        ) from None
    if column.data_type == "enum":
        raw = str(column.members.index(text) + 1 if text in column.members else 0).encode()
    alone = replace(logical, columns=(column.but(nullable=False),), indexes=())
    packet = lenenc_int(len(raw)) + raw
    block = np.frombuffer(len(packet).to_bytes(4, "little") + packet, np.uint8).copy()
    events = list(RowImages(alone, server_kind).events(RowBlock(block, 1)))
    code = EventType(events[-1][4])
    body = events[-1][HEADER_LENGTH : len(events[-1]) - CHECKSUM_LENGTH]
    # Behind the NULL bits of one column.
    return body[RowsHeader.parse(code, body).rows_at + 1 :]


def _codec(column: Column) -> str:
    return "utf-8" if column.charset in UTF8_NAMES or column.charset is None else "ascii"
