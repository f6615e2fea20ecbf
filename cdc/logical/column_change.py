"""What becomes of a column's values while a part of its table has it in another type.

Values are stored as the logical table has them, exactly: one that has no place there is an error
of its row (``cdc.kernels.shape``), never rounded, cut off or replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cdc.binlog.column_types import ColumnType, string_length
from cdc.kernels import shape as K  # noqa: N812
from cdc.kernels.charsets import charset_code, encoder
from cdc.logical.errors import ShapeUnclear
from cdc.schema.table import Column
from cdc.source.table_index import width

INTEGER_NAMES: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TEXT_NAMES: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BYTES_NAMES: Final = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
UTF8_NAMES: Final = frozenset({"utf8mb4", "utf8mb3", "utf8"})

_T = ColumnType
_INTEGERS: Final = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
# Bytes before the fraction, and whether both are one number with a sign.
_CLOCKS: Final[dict[int, tuple[int, bool]]] = {
    _T.DATETIME2: (5, False),
    _T.TIMESTAMP2: (4, False),
    _T.TIME2: (3, True),
}


class Encoders:
    """``charsets.encoder`` of the character sets that columns become, one behind the other."""

    def __init__(self) -> None:
        self._begins: dict[int, int] = {}
        self._parts: list[NDArray[np.uint32]] = [np.empty(0, np.uint32)]

    def begin(self, code: int) -> int:
        """Where the one of this character set begins."""
        if code not in self._begins:
            self._begins[code] = sum(map(len, self._parts))
            self._parts.append(encoder(code))
        return self._begins[code]

    def all(self) -> NDArray[np.uint32]:
        """What the kernel takes."""
        return np.concatenate(self._parts)


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column of a part and of its table, with type and metadata that TABLE_MAP has of each."""

    before: Column
    after: Column
    stored: tuple[int, int]
    becomes: tuple[int, int]

    def plan(self, row: NDArray[np.int64], encoders: Encoders, table: str) -> None:
        """Say into ``row`` int64[S_SIZE] what becomes of the column's values.

        Raises ShapeUnclear, whose object is ``table``.
        """
        ways = (_number, _members, _decimal, _clock, _whole, _floating, _midnight)
        if any(way(row, self) for way in ways) or _text(row, self, encoders):
            return
        before, after = self.before, self.after
        raise ShapeUnclear(
            f"column {after.name} is {_told(before)} in a part of it, and {_told(after)} in it:"
            " values of the one are not made into those of the other",
            object=table,
            hint="write nothing to a table while the types of its columns change in this way",
        )


def _number(row: NDArray[np.int64], one: ColumnChange) -> bool:
    old, new = one.stored[0], one.becomes[0]
    if old not in _INTEGERS or new not in _INTEGERS:
        return False
    low, high = _limits(_INTEGERS[new], one.after.unsigned)
    row[K.S_OP] = K.INTEGER
    row[[K.S_WIDTH, K.S_LOW, K.S_HIGH]] = _INTEGERS[new], low, high
    row[K.S_SIGNED] = not one.before.unsigned
    return True


def _members(row: NDArray[np.int64], one: ColumnChange) -> bool:
    """ENUM is the number of a member, SET has a bit for each."""
    before, after = one.before, one.after
    if before.data_type != after.data_type or after.data_type not in ("enum", "set"):
        return False
    shared = min(len(before.members), len(after.members))
    if before.members[:shared] != after.members[:shared]:
        return False
    count = len(after.members)
    high = count if after.data_type == "enum" else (1 << min(count, 63)) - 1
    row[K.S_OP] = K.INTEGER
    row[[K.S_WIDTH, K.S_LOW, K.S_HIGH]] = one.becomes[1] & 255, 0, high
    return True


def _decimal(row: NDArray[np.int64], one: ColumnChange) -> bool:
    if (one.stored[0], one.becomes[0]) != (_T.NEWDECIMAL, _T.NEWDECIMAL):
        return False
    if _loses_sign(one):
        return False
    row[[K.S_OP, K.S_LOW, K.S_HIGH]] = K.DECIMAL, one.stored[1], one.becomes[1]
    return True


def _clock(row: NDArray[np.int64], one: ColumnChange) -> bool:
    code = one.stored[0]
    if one.before.data_type != one.after.data_type or code != one.becomes[0]:
        return False
    if code not in _CLOCKS:
        return False
    head, signed = _CLOCKS[code]
    row[[K.S_OP, K.S_WIDTH, K.S_SIGNED]] = K.CLOCK, head, signed
    row[[K.S_LOW, K.S_HIGH]] = one.stored[1], one.becomes[1]
    return True


def _whole(row: NDArray[np.int64], one: ColumnChange) -> bool:
    """An integer and a DECIMAL without a fraction."""
    old, new = one.stored[0], one.becomes[0]
    if old in _INTEGERS and new == _T.NEWDECIMAL and not _loses_sign(one):
        row[[K.S_OP, K.S_HIGH]] = K.DECIMAL_OF_INTEGER, one.becomes[1]
        row[K.S_SIGNED] = not one.before.unsigned
        return True
    if old == _T.NEWDECIMAL and new in _INTEGERS:
        row[[K.S_OP, K.S_LOW]] = K.INTEGER_OF_DECIMAL, one.stored[1]
        row[[K.S_WIDTH, K.S_SIGNED]] = _INTEGERS[new], not one.after.unsigned
        return True
    return False


def _floating(row: NDArray[np.int64], one: ColumnChange) -> bool:
    old, new = one.stored[0], one.becomes[0]
    # FLOAT(M,D) is rounded as it is stored.
    if _loses_sign(one) or "," in one.after.column_type:
        return False
    if (old, new) == (_T.FLOAT, _T.DOUBLE):
        row[K.S_OP] = K.DOUBLE_OF_FLOAT
    elif (old, new) == (_T.DOUBLE, _T.FLOAT):
        row[K.S_OP] = K.FLOAT_OF_DOUBLE
    else:
        return False
    return True


def _midnight(row: NDArray[np.int64], one: ColumnChange) -> bool:
    """A DATE, and a DATETIME at its midnight."""
    old, new = one.stored[0], one.becomes[0]
    if (old, new) == (_T.DATE, _T.DATETIME2):
        row[[K.S_OP, K.S_HIGH]] = K.DATETIME_OF_DATE, one.becomes[1]
    elif (old, new) == (_T.DATETIME2, _T.DATE):
        row[[K.S_OP, K.S_LOW]] = K.DATE_OF_DATETIME, one.stored[1]
    else:
        return False
    return True


def _loses_sign(one: ColumnChange) -> bool:
    """Whether a negative value would have no place, which its bytes do not tell."""
    return one.after.unsigned and not one.before.unsigned


def _text(row: NDArray[np.int64], one: ColumnChange, encoders: Encoders) -> bool:
    """Text of any character set, and bytes, which are taken for text as a server does."""
    before, after = one.before, one.after
    if not {before.data_type, after.data_type} <= TEXT_NAMES | BYTES_NAMES:
        return False
    if before.compressed or after.compressed:
        # What is stored is not the value.
        return False
    code, meta = one.becomes
    size = -width(code, meta)
    read_as = after if before.data_type in BYTES_NAMES else before
    trims = after.data_type == "char" and before.data_type != "char"
    counted = False
    if after.data_type in BYTES_NAMES:
        row[K.S_OP] = K.PREFIX
    elif read_as is before and before.charset == after.charset and not trims:
        row[K.S_OP] = K.PREFIX
        counted = after.charset in UTF8_NAMES
    else:
        as_it_is, as_it_becomes = _charset(read_as), _charset(after)
        if as_it_is is None or as_it_becomes is None:
            return False
        row[[K.S_OP, K.S_CODE, K.S_INTO, K.S_TRIMS]] = K.TEXT, as_it_is, as_it_becomes, trims
        row[K.S_ENCODER] = encoders.begin(as_it_becomes)
        counted = True
    row[[K.S_WIDTH, K.S_HIGH]] = size, _longest(code, meta, size)
    if counted and after.length and code in (_T.VARCHAR, _T.STRING):
        row[K.S_LOW] = after.length
    return True


def _charset(column: Column) -> int | None:
    if not column.charset or column.charset == "binary":
        return None
    return charset_code(column.charset)


def _longest(code: int, meta: int, size: int) -> int:
    """Bytes that a column of text takes at most; ``size`` is that of its length."""
    if code == _T.VARCHAR:
        return meta
    return string_length(meta) if code == _T.STRING else (1 << 8 * size) - 1


def _told(column: Column) -> str:
    return f"{column.column_type} {column.charset}" if column.charset else column.column_type


def _limits(size: int, unsigned: bool) -> tuple[int, int]:
    if unsigned:
        return 0, min((1 << 8 * size) - 1, (1 << 63) - 1)
    return -(1 << 8 * size - 1), (1 << 8 * size - 1) - 1
