"""The optional part of TABLE_MAP: names, signs, charsets, members, keys.

A sequence of (type 1 byte, length length-encoded, value). Signs are always there since MySQL 8.0
and MariaDB 10.5; names, members and keys with ``binlog_row_metadata=FULL`` only. Lists skip the
columns to which they do not apply, so each list is spread over all columns here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from cdc.binlog.column_types import (
    ColumnType,
    is_character,
    is_character_or_geometry,
    is_enum_or_set,
    is_numeric,
    real_type,
)
from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import EventMalformed
from cdc.binlog.events import Dialect


class MetadataField(IntEnum):
    """Field types; unknown ones are kept by number."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What the optional fields say; each tuple has one entry a column, ``()`` if not logged.

    ``collations`` are collation ids of character, enum and set columns, ``None`` for others.
    ``members`` are the raw bytes of enum and set members, in the column's charset.
    ``primary_key`` is pairs of ordinal and prefix length in characters (0: the whole column).
    """

    unsigned: tuple[bool | None, ...] = ()
    collations: tuple[int | None, ...] = ()
    names: tuple[str, ...] = ()
    members: tuple[tuple[bytes, ...], ...] = ()
    geometry_types: tuple[int | None, ...] = ()
    primary_key: tuple[tuple[int, int], ...] = ()
    visible: tuple[bool, ...] = ()
    vector_dimensions: tuple[int | None, ...] = ()
    unknown: tuple[tuple[int, bytes], ...] = ()

    @classmethod
    def parse(
        cls,
        data: bytes,
        types: bytes,
        metadata: tuple[int, ...],
        dialect: Dialect | None = None,
    ) -> TableMetadata:
        """From the bytes behind the null bits; :class:`EventMalformed` where they do not fit.

        The families disagree whether a GEOMETRY counts as text in the charset fields. Without a
        dialect the number of entries decides, and where even that says nothing, MySQL.
        """
        columns = list(zip(types, metadata, strict=True))
        state = cls()
        cursor = Cursor(data, "TABLE_MAP optional metadata")
        while cursor.left():
            code = cursor.uint(1, "field type")
            value = cursor.lenenc_bytes("field")
            read = (_MARIADB_READERS if dialect is Dialect.MARIADB else _READERS).get(code)
            if read is None:
                state = replace(state, unknown=(*state.unknown, (code, value)))
            else:
                field = Cursor(value, f"TABLE_MAP {MetadataField(code).name}")
                state = read(state, field, columns)
        return state


_Columns = list[tuple[int, int]]
_Reader = Callable[[TableMetadata, Cursor, _Columns], TableMetadata]


def _bits(cursor: Cursor, count: int) -> list[bool]:
    data = cursor.take((count + 7) // 8, "bits")
    return [bool(data[i >> 3] & 0x80 >> (i & 7)) for i in range(count)]


def _numbers(cursor: Cursor) -> Iterator[int]:
    while cursor.left():
        yield cursor.lenenc("number")


def _which(columns: _Columns, applies: Callable[[int, int], bool]) -> list[int]:
    return [i for i, (code, meta) in enumerate(columns) if applies(code, meta)]


def _ordinal(i: int, columns: _Columns) -> int:
    if i >= len(columns):
        raise EventMalformed(f"TABLE_MAP: optional metadata names column {i} of {len(columns)}")
    return i


def _signedness(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
    at = _which(columns, lambda code, _: is_numeric(code))
    out: list[bool | None] = [None] * len(columns)
    for i, bit in zip(at, _bits(cursor, len(at)), strict=True):
        out[i] = bit
    return replace(state, unsigned=tuple(out))


def _merge_collations(
    state: TableMetadata, columns: _Columns, found: dict[int, int]
) -> TableMetadata:
    before = state.collations or (None,) * len(columns)
    return replace(state, collations=tuple(found.get(i, c) for i, c in enumerate(before)))


def _default_charset(applies: Callable[[int, int], bool]) -> _Reader:
    def read(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
        at = _which(columns, applies)
        default = cursor.lenenc("default collation")
        found = dict.fromkeys(at, default)
        while cursor.left():
            which = cursor.lenenc("column")
            if which >= len(at):
                raise EventMalformed(f"TABLE_MAP: collation for text column {which} of {len(at)}")
            found[at[which]] = cursor.lenenc("collation")
        return _merge_collations(state, columns, found)

    return read


def _column_charset(applies: Callable[[int, int], bool]) -> _Reader:
    def read(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
        at = _which(columns, applies)
        values = list(_numbers(cursor))
        if len(values) != len(at) and applies is is_character:
            at = _which(columns, is_character_or_geometry)
        if len(values) != len(at):
            raise EventMalformed(f"TABLE_MAP: {len(values)} collations for {len(at)} columns")
        return _merge_collations(state, columns, dict(zip(at, values, strict=True)))

    return read


def _names(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
    names = tuple(cursor.lenenc_bytes("column name").decode("utf-8", "replace") for _ in columns)
    return replace(state, names=names)


def _members(kind: ColumnType) -> _Reader:
    def read(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
        out = list(state.members or ((),) * len(columns))
        for i in _which(columns, lambda code, meta: real_type(code, meta) == kind):
            out[i] = tuple(
                cursor.lenenc_bytes("member") for _ in range(_count(cursor, "number of members"))
            )
        return replace(state, members=tuple(out))

    return read


def _count(cursor: Cursor, field: str) -> int:
    count = cursor.lenenc(field)
    if count > cursor.left():
        raise EventMalformed(f"{cursor.what}: {field} {count} is impossible")
    return count


def _numbers_of(code: ColumnType, columns: _Columns, cursor: Cursor) -> tuple[int | None, ...]:
    out: list[int | None] = [None] * len(columns)
    for i in _which(columns, lambda c, _: c == code):
        out[i] = cursor.lenenc("number")
    return tuple(out)


def _geometry(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
    return replace(state, geometry_types=_numbers_of(ColumnType.GEOMETRY, columns, cursor))


def _vector(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
    return replace(state, vector_dimensions=_numbers_of(ColumnType.VECTOR, columns, cursor))


def _simple_key(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
    return replace(state, primary_key=tuple((_ordinal(i, columns), 0) for i in _numbers(cursor)))


def _prefix_key(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
    pairs: list[tuple[int, int]] = []
    while cursor.left():
        ordinal = _ordinal(cursor.lenenc("column"), columns)
        pairs.append((ordinal, cursor.lenenc("prefix length")))
    return replace(state, primary_key=tuple(pairs))


def _visibility(state: TableMetadata, cursor: Cursor, columns: _Columns) -> TableMetadata:
    return replace(state, visible=tuple(_bits(cursor, len(columns))))


_READERS: dict[int, _Reader] = {
    MetadataField.SIGNEDNESS: _signedness,
    MetadataField.DEFAULT_CHARSET: _default_charset(is_character),
    MetadataField.COLUMN_CHARSET: _column_charset(is_character),
    MetadataField.COLUMN_NAME: _names,
    MetadataField.SET_STR_VALUE: _members(ColumnType.SET),
    MetadataField.ENUM_STR_VALUE: _members(ColumnType.ENUM),
    MetadataField.GEOMETRY_TYPE: _geometry,
    MetadataField.SIMPLE_PRIMARY_KEY: _simple_key,
    MetadataField.PRIMARY_KEY_WITH_PREFIX: _prefix_key,
    MetadataField.ENUM_AND_SET_DEFAULT_CHARSET: _default_charset(is_enum_or_set),
    MetadataField.ENUM_AND_SET_COLUMN_CHARSET: _column_charset(is_enum_or_set),
    MetadataField.COLUMN_VISIBILITY: _visibility,
    MetadataField.VECTOR_DIMENSIONALITY: _vector,
}
_MARIADB_READERS: dict[int, _Reader] = {
    **_READERS,
    MetadataField.DEFAULT_CHARSET: _default_charset(is_character_or_geometry),
    MetadataField.COLUMN_CHARSET: _column_charset(is_character_or_geometry),
}
