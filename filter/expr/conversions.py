"""CAST, where it keeps what it converts."""

from __future__ import annotations

from filter.expr.arithmetic import bits
from filter.expr.convert import numeric, temporal_constant
from filter.expr.dates import day
from filter.expr.textfunctions import as_bytes
from filter.expr.values import Kind, Type, Value, Vector, derive

_SIGNED = frozenset({"SIGNED", "SIGNED INTEGER", "SIGNED INT"})
_UNSIGNED = frozenset({"UNSIGNED", "UNSIGNED INTEGER", "UNSIGNED INT"})


def cast(value: Value, target: str, at: int) -> Value | None:
    """``CAST(value AS target)``; None for what is not evaluated."""
    kind = value.type.kind
    if target == "BINARY" and kind is Kind.STRING:
        return as_bytes(value, at)
    if target in _SIGNED | _UNSIGNED and kind is Kind.INT:
        return _integer(numeric(value), target in _UNSIGNED, at)
    if target in ("DATE", "DATETIME") and kind is Kind.STRING and isinstance(value.literal, str):
        value = temporal_constant(value, Kind.DATETIME)
        kind = value.type.kind
    if target == "DATE" and kind is Kind.DATETIME:
        return day(value, at)
    if target == "DATETIME" and kind is Kind.DATETIME and value.type.scale == 0:
        return derive(Type(Kind.DATETIME), [value], lambda v: v, at)
    return None


def _integer(value: Value, unsigned: bool, at: int) -> Value:
    """The same 64 bits with another sign."""

    def run(v: Vector) -> Vector:
        word = bits(v.data)
        return Vector(word.view("u8") if unsigned else word, v.state)

    return derive(Type(Kind.INT, unsigned=unsigned, digits=20), [value], run, at)
