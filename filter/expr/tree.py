"""An expression as it was written: operators, names and literals, nothing resolved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Op(Enum):
    """What a node is."""

    NUMBER = "number"  # value: its text
    STRING = "string"  # value: its characters
    HEX = "0x…"  # value: bytes
    HEX_STRING = "x'…'"  # value: bytes
    BIT = "bit literal"  # value: bytes
    DATE = "DATE"  # value: the text of DATE '…'
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    NULL = "NULL"
    BOOL = "boolean"  # value: TRUE or FALSE
    COLUMN = "column"  # value: its name; qualifier: table or schema.table
    CALL = "function"  # value: upper-case name
    CASE = "CASE"  # args: operand or NULL-node, (when, then)…, else; value: has an operand
    CAST = "CAST"  # value: upper-case target type
    COLLATE = "COLLATE"  # value: collation
    UNARY = "unary"  # value: - ~ NOT
    BINARY = "binary"  # value: + - * / DIV % & | ^ << >>
    COMPARE = "compare"  # value: = <=> <> < <= > >=
    AND = "AND"
    OR = "OR"
    XOR = "XOR"
    IS = "IS"  # value: NULL TRUE FALSE
    IN = "IN"
    BETWEEN = "BETWEEN"
    LIKE = "LIKE"  # args: value, pattern, escape or none
    REGEXP = "REGEXP"  # args: value, pattern


@dataclass(frozen=True, slots=True)
class Node:
    """One node; ``at`` is its offset in the text, for errors."""

    op: Op
    at: int
    value: str | bytes | bool = ""
    args: tuple[Node, ...] = ()
    qualifier: tuple[str, ...] = ()
    quoted: bool = False
