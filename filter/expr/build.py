"""Tree → compiled value, checked against a table and the server that the rows come from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.expr import conversions, decimals, logic, strings
from filter.expr import jsonfunctions as json
from filter.expr import textfunctions as texts
from filter.expr.arithmetic import Server, binary, inverted, negative
from filter.expr.collations import connection_collation
from filter.expr.columns import column_is_null, column_value, null
from filter.expr.compare import between, compare, equal, within
from filter.expr.convert import (
    constant_int,
    numeric,
    parse_datetime,
    parse_time,
    refused,
    truth,
)
from filter.expr.dates import DATE_PARTS, day_number, day_of, days_between, part
from filter.expr.errors import ExpressionColumnNotFound, ExpressionNotSupported
from filter.expr.numbers import absolute, ceiling, floor, rounded, sign
from filter.expr.patterns import regexp
from filter.expr.tree import Node, Op
from filter.expr.values import Kind, Strength, Type, Value, Vector, no_state

# 10.4 compared doubles; from 10.11 on measured, those between are taken for alike.
_DECIMAL_TEXTS = (10, 5, 0)
_EXACT = re.compile(r"(\d*)\.?(\d*)")


@dataclass(frozen=True, slots=True)
class Context:
    """What an expression is checked against."""

    table: Table
    session: Session

    @property
    def server(self) -> Server:
        """What arithmetic and comparison depend on."""
        session = self.session
        decimal_texts = session.mariadb and session.version >= _DECIMAL_TEXTS
        return Server(session.mariadb, self.careless, decimal_texts)

    @property
    def careless(self) -> bool:
        """Where XOR rounds, CASE forgets after a NULL, and shifts take 32 bits of their places."""
        return self.session.mariadb or self.before_8

    @property
    def before_8(self) -> bool:
        """MySQL 5.x, which has rules of its own for ranges, CASE, XOR and patterns."""
        return not self.session.mariadb and self.session.version < (8, 0, 0)


def build(node: Node, context: Context) -> Value:
    """The compiled value of a tree.

    Raises ``ExpressionColumnNotFound`` and ``ExpressionNotSupported``.
    """
    return _BUILDERS[node.op](node, context)


def build_condition(node: Node, context: Context) -> Value:
    """The same as a condition: bool data. NULL stays NULL."""
    return truth(_condition(build(node, context), context))


def _args(node: Node, context: Context) -> list[Value]:
    return [build(a, context) for a in node.args]


def _condition(value: Value, context: Context) -> Value:
    bare = value.column is not None and numeric(value).type.kind is Kind.STRING
    if bare and context.server.decimal_texts:
        # A number next to nothing is true there or false, as the optimizer has changed what is
        # around it.
        raise refused("a column of text as a condition", value.at, "write a comparison, as <> 0")
    return value


def _conditions(node: Node, context: Context) -> list[Value]:
    return [_condition(build(a, context), context) for a in node.args]


# --- literals and columns


def _number(node: Node, context: Context) -> Value:
    return number(str(node.value), node.at)


def number(text: str, at: int) -> Value:
    """A numeric literal: integer, decimal or double, as it is written."""
    if "e" in text.lower():
        real = float(text)
        if not np.isfinite(real):
            raise refused(f"{text} is out of range", at, "write a smaller number")
        data = np.array([real])
        return Value(Type(Kind.REAL), lambda _: Vector(data, no_state()), at=at, constant=True,
                     literal=real)  # fmt: skip
    plain = text.lstrip("-")
    if "." not in text:
        whole = int(text)
        if -(1 << 63) <= whole < 1 << 64:
            unsigned = whole >= 1 << 63
            return constant_int(whole, Type(Kind.INT, unsigned=unsigned, digits=20), at)
    before, _, after = plain.partition(".")
    digits, scale = max(len(before.lstrip("0")), 1) + len(after), len(after)
    if digits > 65 or scale > 30:
        raise refused(f"a number of {digits} digits", at, "write fewer digits")
    limbs = decimals.literal(text, digits, scale)
    return Value(Type(Kind.DECIMAL, digits=digits, scale=scale),
                 lambda _: Vector(limbs, no_state()), at=at, constant=True,
                 literal=Decimal(text))  # fmt: skip


def _string(node: Node, context: Context) -> Value:
    collation = connection_collation(context.session)
    type_ = Type(Kind.STRING, charset="utf8mb4", collation=collation, strength=Strength.LITERAL)
    return strings.text_literal(str(node.value), type_, node.at)


def _binary_literal(node: Node, context: Context) -> Value:
    data = node.value
    assert isinstance(data, bytes)
    type_ = Type(Kind.STRING, charset="binary", collation="binary", strength=Strength.LITERAL)
    found = strings.bytes_literal(data, type_, node.at)
    if node.op is Op.HEX_STRING and context.session.mariadb:
        return found
    if len(data) > 8:
        return found
    unsigned = Type(Kind.INT, unsigned=True, digits=20)
    found.number = constant_int(int.from_bytes(data, "big"), unsigned, node.at)
    return found


def _dated(node: Node, context: Context) -> Value:
    text = str(node.value)
    if node.op is Op.TIME:
        packed = parse_time(text)
        if packed is not None:
            return constant_int(packed, Type(Kind.TIME), node.at)
    else:
        found = parse_datetime(text)
        if found is not None and found[1] == (node.op is Op.DATE):
            return constant_int(found[0], Type(Kind.DATETIME, is_date=found[1]), node.at)
    raise refused(f"{node.op.value} {text!r}", node.at, "write a valid, complete one")


def _bool(node: Node, context: Context) -> Value:
    return constant_int(int(bool(node.value)), Type(Kind.INT, digits=1), node.at)


def _column(node: Node, context: Context) -> Value:
    return column_value(context.table, _ordinal(node, context), context.session, node.at)


def _ordinal(node: Node, context: Context) -> int:
    table = context.table
    names = [table.schema, table.name][2 - len(node.qualifier) :]
    name = str(node.value)
    ordinal = table.positions.get(name.lower())
    if ordinal is None or [n.lower() for n in node.qualifier] != [n.lower() for n in names]:
        raise ExpressionColumnNotFound(
            f"there is no column {'.'.join((*node.qualifier, name))}",
            object=table.full_name,
            position=f"offset {node.at}",
            hint="name a column of every table that the rule matches",
        )
    return ordinal


# --- operators


def _unary(node: Node, context: Context) -> Value:
    inside = node.args[0]
    if node.value == "-" and inside.op is Op.NUMBER:
        return number("-" + str(inside.value), node.at)
    value = build(inside, context)
    if node.value == "-":
        return negative(value, node.at)
    if node.value == "~":
        return inverted(value, node.at)
    return logic.opposite(_condition(value, context), node.at)


def _binary(node: Node, context: Context) -> Value:
    left, right = _args(node, context)
    if context.before_8 and node.value in ("DIV", "<<", ">>"):
        raise refused(f"{node.value!s} of MySQL 5", node.at, "write a comparison of the columns")
    return binary(str(node.value), left, right, context.server, node.at)


def _compare(node: Node, context: Context) -> Value:
    if any(map(json.is_extract, node.args)):
        return json.comparison(node, _scope(context))
    left, right = _args(node, context)
    return compare(str(node.value), left, right, context.server, node.at)


def _xor(node: Node, context: Context) -> Value:
    left, right = _args(node, context)
    if context.careless and any(_rounded(v) for v in (left, right)):
        raise refused("XOR of what is no integer", node.at, "write a comparison on each side")
    return logic.exclusive(left, right, node.at)


def _rounded(value: Value) -> bool:
    """Whether MariaDB rounds a side of XOR to an integer first; it may drop pairs of NOT."""
    while value.negates is not None:
        value = value.negates
    return value.type.kind is not Kind.INT


def _between(node: Node, context: Context) -> Value:
    if context.before_8:
        raise refused("BETWEEN of MySQL 5", node.at, "write two comparisons")
    value, low, high = _args(node, context)
    return between(value, low, high, context.server, node.at)


def _in(node: Node, context: Context) -> Value:
    value, *items = _args(node, context)
    return within(value, items, context.server, node.at)


def _like(node: Node, context: Context) -> Value:
    args = _args(node, context)
    escape = args[2] if len(args) > 2 else None
    if context.before_8 and (escape is not None or "\\" in str(args[1].literal)):
        raise refused("LIKE with an escape of MySQL 5", node.at, "write it without")
    return strings.like(args[0], args[1], escape, context.session, node.at)


def _regexp(node: Node, context: Context) -> Value:
    value, pattern = _args(node, context)
    return regexp(value, pattern, None, context.session, node.at, "REGEXP")


def _collate(node: Node, context: Context) -> Value:
    return strings.collated(build(node.args[0], context), str(node.value), context.session, node.at)


def _case(node: Node, context: Context) -> Value:
    args = _args(node, context)
    if node.value:
        operand, args = args[0], args[1:]
        _case_items(args[:-3:2], context, node.at)
        operand, *items = strings.together([operand, *args[:-1:2]], node.at)
        tests = [equal(operand, v, context.server, node.at) for v in items]
    else:
        tests = [_condition(v, context) for v in args[:-1:2]]
    return logic.choose(tests, [*args[1::2], args[-1]], node.at)


def _case_items(items: list[Value], context: Context, at: int) -> None:
    if context.careless and not all(v.constant for v in items):
        # After a NULL it takes none of the later WHENs.
        raise refused("CASE of a value WHEN a column", at, "write CASE WHEN a = b")


def _cast(node: Node, context: Context) -> Value:
    value, target = build(node.args[0], context), str(node.value)
    found = conversions.cast(value, target, node.at)
    if found is None:
        raise refused(f"CAST AS {target}", node.at, "compare with a literal of the column's kind")
    return found


def _is(node: Node, context: Context) -> Value:
    inside = node.args[0]
    if node.value == "NULL" and inside.op is Op.COMPARE and inside.value == "<=>":
        # MariaDB 10.4 has a NULL there where nothing is NULL.
        raise refused("IS NULL of <=>", node.at, "it is never NULL")
    if node.value == "NULL" and inside.op is Op.COLUMN:
        return column_is_null(context.table, _ordinal(inside, context), node.at)
    if node.value == "NULL" and json.is_extract(inside):
        return json.absence(inside, _scope(context), node.at)
    if node.value == "NULL" and context.before_8:
        raise refused("IS NULL of more than a column on MySQL 5", node.at, "ask it of the columns")
    return logic.is_(build(inside, context), str(node.value), node.at)


def _scope(context: Context) -> json.Scope:
    return json.Scope(
        context.table, context.session,
        lambda n: _ordinal(n, context), lambda n: build(n, context),
    )  # fmt: skip


def _call(node: Node, context: Context) -> Value:
    if json.is_json(node):
        return json.call(node, _scope(context))
    name = str(node.value)
    found = FUNCTIONS.get(name)
    if name == "NULLIF":
        found = (2, 2, lambda a, at: logic.nullif(a[0], a[1], context.server, at))
    if name == "REGEXP_LIKE" and not context.session.mariadb:
        found = (2, 3, lambda a, at: regexp(a[0], a[1], a[2] if len(a) > 2 else None,
                                            context.session, at, name))  # fmt: skip
    if found is None or (context.before_8 and name in _NOT_ON_5):
        raise ExpressionNotSupported(
            f"function {name} is not evaluated here",
            object=context.table.full_name,
            position=f"offset {node.at}",
            hint="docs/filter-expressions.md lists the functions",
        )
    low, high, make = found
    args = _args(node, context)
    if not low <= len(args) <= high:
        raise refused(f"{name} with {len(args)} arguments", node.at, "see its description")
    if name == "IF":
        args[0] = _condition(args[0], context)
    return make(args, node.at)


_NOT_ON_5 = frozenset("ISNULL NULLIF FLOOR CEIL CEILING ROUND TRUNCATE".split())
"""Functions that MySQL 5 evaluates in another way."""

Maker = Callable[[list[Value], int], Value]
_MANY = 64

FUNCTIONS: dict[str, tuple[int, int, Maker]] = {
    "IF": (3, 3, lambda a, at: logic.choose(a[:1], a[1:], at)),
    "IFNULL": (2, 2, logic.coalesce),
    "COALESCE": (1, _MANY, logic.coalesce),
    "ISNULL": (1, 1, lambda a, at: logic.is_(a[0], "NULL", at)),
    "MOD": (2, 2, lambda a, at: binary("%", a[0], a[1], Server(False, False), at)),
    "ABS": (1, 1, lambda a, at: absolute(a[0], at)),
    "SIGN": (1, 1, lambda a, at: sign(a[0], at)),
    "LENGTH": (1, 1, lambda a, at: strings.length(a[0], at)),
    "OCTET_LENGTH": (1, 1, lambda a, at: strings.length(a[0], at)),
    "CHAR_LENGTH": (1, 1, lambda a, at: strings.char_length(a[0], at)),
    "CHARACTER_LENGTH": (1, 1, lambda a, at: strings.char_length(a[0], at)),
}
"""By name: least and most arguments, and what makes the value."""


def _date_part(name: str) -> Maker:
    return lambda a, at: part(name, a[0], at)


FUNCTIONS |= {name: (1, 1, _date_part(name)) for name in DATE_PARTS}
FUNCTIONS |= {
    "TO_DAYS": (1, 1, lambda a, at: day_number(a[0], at)),
    "DATEDIFF": (2, 2, lambda a, at: days_between(a[0], a[1], at)),
    "DAYOFWEEK": (1, 1, lambda a, at: day_of("DAYOFWEEK", a[0], at)),
    "WEEKDAY": (1, 1, lambda a, at: day_of("WEEKDAY", a[0], at)),
    "DAYOFYEAR": (1, 1, lambda a, at: day_of("DAYOFYEAR", a[0], at)),
    "FLOOR": (1, 1, lambda a, at: floor(a[0], at)),
    "CEIL": (1, 1, lambda a, at: ceiling(a[0], at)),
    "CEILING": (1, 1, lambda a, at: ceiling(a[0], at)),
    "ROUND": (1, 2, lambda a, at: rounded("ROUND", a, at)),
    "TRUNCATE": (2, 2, lambda a, at: rounded("TRUNCATE", a, at)),
    "SUBSTRING": (2, 3, texts.substring),
    "SUBSTR": (2, 3, texts.substring),
    "MID": (3, 3, texts.substring),
    "LEFT": (2, 2, texts.left),
    "RIGHT": (2, 2, texts.right),
    "TRIM": (1, 1, lambda a, at: texts.trim(a, at, "TRIM")),
    "LTRIM": (1, 1, lambda a, at: texts.trim(a, at, "LTRIM")),
    "RTRIM": (1, 1, lambda a, at: texts.trim(a, at, "RTRIM")),
    "LOWER": (1, 1, lambda a, at: texts.change_case(a, at, True)),
    "LCASE": (1, 1, lambda a, at: texts.change_case(a, at, True)),
    "UPPER": (1, 1, lambda a, at: texts.change_case(a, at, False)),
    "UCASE": (1, 1, lambda a, at: texts.change_case(a, at, False)),
    "CONCAT": (1, _MANY, texts.concat),
}

_BUILDERS: dict[Op, Callable[[Node, Context], Value]] = {
    Op.NUMBER: _number,
    Op.STRING: _string,
    Op.HEX: _binary_literal,
    Op.HEX_STRING: _binary_literal,
    Op.BIT: _binary_literal,
    Op.DATE: _dated,
    Op.TIME: _dated,
    Op.TIMESTAMP: _dated,
    Op.NULL: lambda n, c: null(n.at),
    Op.BOOL: _bool,
    Op.COLUMN: _column,
    Op.CALL: _call,
    Op.CASE: _case,
    Op.CAST: _cast,
    Op.COLLATE: _collate,
    Op.UNARY: _unary,
    Op.BINARY: _binary,
    Op.COMPARE: _compare,
    Op.AND: lambda n, c: logic.both(_conditions(n, c), n.at),
    Op.OR: lambda n, c: logic.either(_conditions(n, c), n.at),
    Op.XOR: _xor,
    Op.IS: _is,
    Op.IN: _in,
    Op.BETWEEN: _between,
    Op.LIKE: _like,
    Op.REGEXP: _regexp,
}
