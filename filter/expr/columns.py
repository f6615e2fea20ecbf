"""Columns of a table as values: which storage becomes which vector.

How a value is stored is known from the TABLE_MAP only, so the loader asks the plan of the located
rows; what it *means* is known from the table, at creation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdc.base.errors import InternalError
from cdc.kernels import expr_cells
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.values.errors import LENGTH, MESSAGES
from cdc.schema.session import Session
from cdc.schema.table import Column, Generated, Table
from filter.expr import decimals
from filter.expr.collations import encode, own_name, supported
from filter.expr.errors import ExpressionFailed, ExpressionNotSupported
from filter.expr.values import (
    BIT,
    BOOLEAN,
    YEAR,
    Frame,
    Kind,
    Strength,
    Text,
    Type,
    Value,
    Vector,
    derive,
    no_state,
)

_INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8, "bool": 1,
             "boolean": 1, "integer": 4}  # fmt: skip
_WIDTHS = _INTEGERS | {"year": YEAR, "bit": BIT}
_TEXTS = frozenset("char varchar tinytext text mediumtext longtext".split())
_BINARIES = frozenset("binary varbinary tinyblob blob mediumblob longblob".split())


def refuse(column: Column, table: Table, why: str, at: int) -> ExpressionNotSupported:
    """An error about a column."""
    return ExpressionNotSupported(
        f"{why}: column {column.name} is {column.column_type}",
        object=table.full_name,
        position=f"offset {at}",
        hint="compare another column, or leave the rows to the receiver",
    )


def column_type(column: Column, table: Table, session: Session, at: int) -> Type:
    """The static type of a column; ``ExpressionNotSupported`` if its values are not evaluated."""
    name = column.data_type
    if column.generated is Generated.VIRTUAL:
        raise refuse(column, table, "a virtual column is not in every row image", at)
    if column.compressed:
        raise refuse(column, table, "a compressed column is not evaluated", at)
    if name in _INTEGERS or name in ("bit", "year"):
        unsigned = column.unsigned or column.zerofill or name in ("bit", "year")
        return Type(Kind.INT, unsigned=unsigned, digits=20)
    if name in ("decimal", "numeric"):
        digits, scale = column.length or 10, column.scale or 0
        return Type(Kind.DECIMAL, unsigned=column.unsigned, digits=digits, scale=scale)
    if name in ("float", "double", "real"):
        return Type(Kind.REAL, unsigned=column.unsigned, decimals=column.scale)
    if name in ("date", "datetime", "timestamp"):
        return Type(Kind.DATETIME, scale=column.scale or 0, is_date=name == "date")
    if name == "time":
        return Type(Kind.TIME, scale=column.scale or 0)
    if name in _BINARIES or (name in _TEXTS and column.charset == "binary"):
        return Type(Kind.STRING, charset="binary", collation="binary", strength=Strength.COLUMN)
    if name in _TEXTS or name in ("enum", "set"):
        charset, collation = column.charset or "", own_name(column.collation or "", session)
        if not supported(charset, collation):
            raise refuse(column, table, f"text of {charset} {collation} is not evaluated", at)
        return Type(Kind.STRING, charset=charset, collation=collation, strength=Strength.COLUMN)
    raise refuse(column, table, "this type is not evaluated", at)


def column_value(table: Table, ordinal: int, session: Session, at: int) -> Value:
    """A column as a value. Enum and set have their text, and their number beside it."""
    column = table.columns[ordinal]
    type_ = column_type(column, table, session, at)
    name = column.data_type
    if name in ("enum", "set"):
        return _members(column, type_, ordinal, at)
    value = Value(type_, lambda f: _load(f, ordinal, type_), at=at, column=ordinal)
    value.width = _WIDTHS.get(name, 0)
    return value


def _members(column: Column, type_: Type, ordinal: int, at: int) -> Value:
    number_type = Type(Kind.INT, unsigned=True, digits=20)
    number = Value(number_type, lambda f: _load(f, ordinal, number_type), at=at, column=ordinal)
    if column.data_type == "set":
        # Its text is put together from members; only what needs no text is evaluated.
        value = Value(type_, number.of, at=at, column=ordinal)
        value.number = number
        value.literal = column.members
        value.type = Type(Kind.STRING, charset="set", collation=type_.collation,
                          strength=Strength.COLUMN)  # fmt: skip
        return value
    known = [encode(m, type_.charset) for m in ("", *column.members)]
    encoded = [m for m in known if m is not None]
    if len(encoded) < len(known):
        raise InternalError("a member outside of its character set", object=column.name)
    buf = np.frombuffer(b"".join(encoded) + bytes(8), np.uint8)
    lengths = np.array([len(m) for m in encoded], np.int64)
    starts = np.cumsum(lengths) - lengths

    def texts(vector: Vector) -> Vector:
        index = vector.data
        if len(index) and int(index.max()) >= len(starts):
            raise ExpressionFailed(f"column {column.name} has a number behind its last member")
        return Vector(Text(buf, starts[index], lengths[index]), vector.state)

    value = derive(type_, [number], texts, at)
    value.number, value.column = number, ordinal
    return value


def _load(frame: Frame | None, ordinal: int, type_: Type) -> Vector:
    if frame is None:
        raise InternalError("a column has no value without a row")
    return frame.once(ordinal, lambda: _decode(frame, ordinal, type_))


def storage_of(frame: Frame, ordinal: int) -> tuple[int, int, int]:
    """How the TABLE_MAP of the rows stores a column: its OP_ and two numbers of that."""
    plans: Any = frame.located.plans
    row = plans.columns[plans.tables[frame.plan, L.T_COLUMN] + ordinal]
    return int(row[L.C_OP]), int(row[L.C_A]), int(row[L.C_B])


def _decode(frame: Frame, ordinal: int, type_: Type) -> Vector:
    op, a, b = storage_of(frame, ordinal)
    starts, lengths, state = frame.cells(ordinal)
    buf, kind = frame.buf, type_.kind
    if kind is Kind.INT:
        out = np.empty(frame.size, np.int64)
        if op <= L.OP_UINT64:
            expr_cells.integers(buf, starts, op, out)
        elif op in (L.OP_YEAR, L.OP_BIT, L.OP_ENUM, L.OP_SET):
            checked((expr_cells.small_numbers(buf, starts, lengths, op, out), LENGTH), frame)
        else:
            raise stored_otherwise(frame, ordinal)
        return Vector(out.view(np.uint64) if type_.unsigned else out, state)
    if kind is Kind.REAL and op in (L.OP_DOUBLE, L.OP_FLOAT):
        out = np.empty(frame.size, np.int64)
        expr_cells.float_bits(buf, starts, op, out)
        if op == L.OP_FLOAT:
            return Vector(out.astype(np.uint32).view(np.float32).astype(np.float64), state)
        return Vector(out.view(np.float64), state)
    if kind is Kind.DECIMAL and op == L.OP_DECIMAL and (a, b) == (type_.digits, type_.scale):
        limbs = np.empty((decimals.limbs_of(a, b)[0], frame.size), np.int64)
        checked(expr_cells.decimals(buf, starts, a, b, limbs), frame)
        return Vector(limbs, state)
    if kind is Kind.DATETIME and op in (L.OP_DATE, L.OP_DATETIME2, L.OP_TIMESTAMP2):
        plans = frame.located.plans
        out = np.empty(frame.size, np.int64)
        found = expr_cells.datetimes(buf, starts, op, a, plans.zone_starts, plans.zone_offsets, out)
        checked(found, frame)
        return Vector(out, state)
    if kind is Kind.TIME and op == L.OP_TIME2:
        out = np.empty(frame.size, np.int64)
        expr_cells.times(buf, starts, a, out)
        return Vector(out, state)
    if kind is Kind.STRING and op in (L.OP_UTF8, L.OP_TEXT, L.OP_BINARY):
        return Vector(Text(buf, starts, lengths), state)
    if kind is Kind.STRING and op == L.OP_BINARY_PADDED:
        return _padded(frame, starts, lengths, a, state)
    raise stored_otherwise(frame, ordinal)


def _padded(frame: Frame, starts: Any, lengths: Any, width: int, state: Any) -> Vector:
    """BINARY(width): row images leave its trailing zeros out."""
    out = np.zeros((frame.size, width), np.uint8)
    buf = np.ascontiguousarray(out.reshape(-1))
    expr_cells.padded(frame.buf, starts, lengths, width, buf)
    at = np.arange(frame.size, dtype=np.int64) * width
    return Vector(Text(buf, at, np.full(frame.size, width, np.int64)), state)


def checked(found: tuple[int, int], frame: Frame) -> None:
    """``ExpressionFailed`` with the name of the row, if a kernel found a malformed value."""
    entry, error = found
    if entry >= 0:
        raise ExpressionFailed(
            MESSAGES.get(error, f"error {error}"), object=frame.row_name(int(entry))
        )


def stored_otherwise(frame: Frame, ordinal: int) -> ExpressionNotSupported:
    """An error about a column whose stored form is another one than its type has today."""
    table = frame.located.plans.entries[frame.plan].table
    column = table.columns[ordinal]
    return ExpressionNotSupported(
        f"the stored form of column {column.name} ({column.column_type}) is not evaluated",
        object=table.full_name,
        hint="rebuild the table on its server, or compare another column",
    )


def column_is_null(table: Table, ordinal: int, at: int) -> Value:
    """``column IS NULL``, of any type that is in row images."""
    column = table.columns[ordinal]
    if column.generated is Generated.VIRTUAL:
        raise refuse(column, table, "a virtual column is not in every row image", at)

    def run(frame: Frame | None) -> Vector:
        assert frame is not None
        starts, _, state = frame.cells(ordinal)
        return Vector(starts < 0, np.zeros_like(state))

    found = Value(BOOLEAN, run, at=at)
    found.columns = frozenset({ordinal})
    return found


def null(at: int) -> Value:
    """The literal NULL."""
    return Value(Type(Kind.NULL), lambda _: Vector(np.zeros(1, np.int64), no_state() + 1), at=at,
                 constant=True)  # fmt: skip
