"""Typed values of an expression: static types, columns of values, and the frame of one chunk.

A vector holds one value for each row of a chunk, or a single one for all (a constant); numpy's
broadcasting joins them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from filter.expr.errors import ExpressionNotSupported

Ints = npt.NDArray[np.int64]
State = npt.NDArray[np.uint8]
Buffer = npt.NDArray[np.uint8]

VALUE, NULL, FAILED = 0, 1, 2
"""States of a value; FAILED is an error on the server too (a number out of range)."""


class Kind(Enum):
    """What a value is; the servers' result types, with dates and times told apart."""

    INT = "integer"
    DECIMAL = "decimal"
    REAL = "floating-point"
    STRING = "string"
    DATETIME = "date"
    TIME = "time"
    JSON = "JSON"
    NULL = "NULL"


class Strength(Enum):
    """Coercibility: whose collation wins, the lowest first.

    MADE is what JSON functions give: it is as weak as a literal, but wins over one, as its
    collation compares bytes.
    """

    EXPLICIT = 0
    COLUMN = 2
    MADE = 3
    LITERAL = 4
    NUMBER = 5
    NOTHING = 6


@dataclass(frozen=True, slots=True)
class Type:
    """Static type of a value.

    ``digits`` and ``scale`` bound a DECIMAL; ``decimals`` are the fixed decimals of a REAL, None if
    it has none. ``strength`` says whose collation wins. ``mixed`` is a choice
    among signed and unsigned integers: a server may keep it as either, or as a decimal.
    """

    kind: Kind
    unsigned: bool = False
    digits: int = 0
    scale: int = 0
    decimals: int | None = None
    charset: str = ""
    collation: str = ""
    strength: Strength = Strength.NOTHING
    is_date: bool = False
    mixed: bool = False


class Text(NamedTuple):
    """Bytes ``buf[starts[i]:starts[i] + lengths[i]]``."""

    buf: Buffer
    starts: Ints
    lengths: Ints

    def value(self, i: int) -> bytes:
        """The bytes of one text."""
        at = int(self.starts[i])
        return self.buf[at : at + int(self.lengths[i])].tobytes()


@dataclass(slots=True)
class Vector:
    """``data`` is what ``Type.kind`` says: int64/uint64/bool, float64, decimal limbs or ``Text``.

    DATETIME and TIME are int64 in the servers' packed form, microseconds lowest. ``state`` says
    where there is a value. JSON is ``jsoncolumns.Parts``, which only the functions of JSON take.
    """

    data: Any
    state: State


class Frame:
    """The rows of one chunk: where their values lie, by column, for one image."""

    def __init__(
        self, located: Any, rows: Ints, plan: int, columns: dict[int, int], starts: Ints,
        lengths: Ints,
    ) -> None:  # fmt: skip
        self.located, self.rows, self.plan = located, rows, plan
        self.buf: Buffer = located.buf
        self._at, self._starts, self._lengths = columns, starts, lengths
        self.size = starts.shape[1]
        self._kept: dict[int, Vector] = {}

    def cells(self, ordinal: int) -> tuple[Ints, Ints, State]:
        """Starts, lengths and states of a column's values; the start of a NULL is -1."""
        starts = self._starts[self._at[ordinal]]
        return starts, self._lengths[self._at[ordinal]], (starts < 0).view(np.uint8)

    def row_name(self, i: int) -> str:
        """``schema.table, row id=42`` of the i-th row, for errors."""
        name: str = self.located.row_name(int(self.rows[i]))
        return name

    def once(self, key: int, make: Callable[[], Vector]) -> Vector:
        """What ``make`` gives, made once for this frame."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found


class Value:
    """A node of a compiled expression.

    ``constant`` values are known before any row. ``column`` is the ordinal of a bare column,
    ``literal`` the Python value of a bare literal. ``number`` is what an enum, a set or a 0x
    literal is where a number is wanted. ``width`` is the bytes of an integer column, YEAR or BIT.
    ``may_fail`` says that it can be FAILED, ``negates`` is what it is the NOT of.
    """

    def __init__(
        self, type_: Type, run: Callable[[Frame | None], Vector], *, at: int = 0,
        constant: bool = False, column: int | None = None, literal: Any = None,
    ) -> None:  # fmt: skip
        self.type, self.at, self.column, self.literal = type_, at, column, literal
        self.constant = constant
        self.columns: frozenset[int] = frozenset() if column is None else frozenset({column})
        self.number: Value | None = None
        self.width = 0
        self.may_fail = False
        self.negates: Value | None = None
        self._run = run
        self._kept: Vector | None = None
        if constant:
            self._kept = run(None)

    def of(self, frame: Frame | None) -> Vector:
        """Its values; read-only."""
        return self._kept if self._kept is not None else self._run(frame)


def derive(
    type_: Type,
    args: list[Value] | tuple[Value, ...],
    run: Callable[..., Vector],
    at: int,
    *,
    may_fail: bool = False,
) -> Value:
    """A value computed from others: ``run`` takes their vectors.

    ``may_fail`` says that it makes FAILED values of its own.
    """
    constant = all(a.constant for a in args)

    def all_of(frame: Frame | None) -> Vector:
        return run(*(a.of(frame) for a in args))

    value = Value(type_, all_of, at=at, constant=constant)
    value.columns = frozenset().union(*(a.columns for a in args))
    value.may_fail = may_fail or any(a.may_fail for a in args)
    if constant and (value.of(None).state == FAILED).any():
        raise ExpressionNotSupported(
            "a constant is out of range", position=f"offset {at}", hint="write a smaller number"
        )
    return value


YEAR, BIT = -1, -2
"""``Value.width`` of a YEAR and a BIT column."""

BOOLEAN = Type(Kind.INT, digits=1)

NARROW = Type(Kind.STRING, charset="utf8mb3", collation="utf8mb3_general_ci",
              strength=Strength.LITERAL)  # fmt: skip
"""What JSON_TYPE of MariaDB gives: weaker than any text of utf8mb4, a literal too.

No literal has this type.
"""


def no_state(n: int = 1) -> State:
    """All values are there."""
    return np.zeros(n, np.uint8)
