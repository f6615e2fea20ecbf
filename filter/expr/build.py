"""Tree → compiled value, checked against a table and the server that the rows come from."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np

from filter.expr import conversions, decimals, logic, strings
from filter.expr import jsonfunctions as json
from filter.expr.arithmetic import binary, inverted, negative
from filter.expr.collations import connection_collation
from filter.expr.columns import column_is_null, column_value, null
from filter.expr.compare import between, compare, equal, same_signs, within
from filter.expr.context import Context
from filter.expr.convert import (
    constant_int,
    parse_datetime,
    parse_time,
    refused,
    truth,
)
from filter.expr.errors import ExpressionColumnNotFound, ExpressionNotSupported
from filter.expr.functions import FUNCTIONS, NOT_ON_5, NOT_ON_MARIADB
from filter.expr.patterns import regexp
from filter.expr.textnumbers import condition
from filter.expr.tree import Node, Op
from filter.expr.values import Kind, Strength, Type, Value, Vector, no_state


def build(node: Node, context: Context) -> Value:
    """The compiled value of a tree.

    Raises ``ExpressionColumnNotFound`` and ``ExpressionNotSupported``.
    """
    return _BUILDERS[node.op](node, context)


def build_condition(node: Node, context: Context) -> Value:
    """The same as a condition: bool data. NULL stays NULL."""
    return truth(condition(build(node, context), context.server))


def _args(node: Node, context: Context) -> list[Value]:
    return [build(a, context) for a in node.args]


def _conditions(node: Node, context: Context) -> list[Value]:
    return [condition(build(a, context), context.server) for a in node.args]


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
    return logic.opposite(condition(value, context.server), node.at)


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
        if not context.server.mariadb:
            same_signs(operand, items, node.at)
        tests = [equal(operand, v, context.server, node.at) for v in items]
    else:
        tests = [condition(v, context.server) for v in args[:-1:2]]
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
    missing = NOT_ON_MARIADB if context.session.mariadb else NOT_ON_5 if context.before_8 else ()
    if found is None or name in missing:
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
    return make(args, context, node.at)


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
