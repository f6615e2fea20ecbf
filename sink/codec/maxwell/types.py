"""The form of each column's values: https://maxwells-daemon.io/dataformat/."""

from __future__ import annotations

from typing import Final

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import maxwell_layout as X  # noqa: N812
from cdc.rows.storage import ColumnTypeNotSupported, Storage
from cdc.schema.table import Column

_FORMS: Final = {
    **dict.fromkeys(range(L.OP_INT8, L.OP_UINT64 + 1), X.FORM_NUMBER),
    L.OP_DECIMAL: X.FORM_NUMBER,
    L.OP_BIT: X.FORM_NUMBER,
    L.OP_FLOAT: X.FORM_FLOAT,
    L.OP_DOUBLE: X.FORM_DOUBLE,
    L.OP_YEAR: X.FORM_YEAR,
    L.OP_BINARY: X.FORM_BYTES,
    L.OP_BINARY_PADDED: X.FORM_PADDED,
    L.OP_ENUM: X.FORM_ENUM,
    L.OP_SET: X.FORM_SET,
    L.OP_JSON: X.FORM_JSON,
}
"""What is none of these is a text."""
# Stored as plain bytes, but texts to Maxwell.
_GEOMETRIES: Final = frozenset(
    {
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
        *("multipolygon", "geometrycollection", "geomcollection"),
    }
)


def form(column: Column, stored: Storage) -> int:
    """FORM_* of a column. Raises ``ColumnTypeNotSupported``, whose object is its name."""
    if column.data_type in _GEOMETRIES:
        raise ColumnTypeNotSupported(
            f"maxwell has no form for values of type {column.column_type} yet",
            object=column.name,
            hint="leave the column out by sink.column-selectors, or use protocol=canal-json",
        )
    return _FORMS.get(stored.op, X.FORM_TEXT)
