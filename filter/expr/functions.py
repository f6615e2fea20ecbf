"""The functions of expressions by name; those of JSON are in ``jsonfunctions``."""

from __future__ import annotations

from collections.abc import Callable

from filter.expr import logic, strings
from filter.expr import textfunctions as texts
from filter.expr.arithmetic import Server, binary
from filter.expr.context import Context
from filter.expr.dates import DATE_PARTS, day, day_number, day_of, days_between, part
from filter.expr.numbers import absolute, ceiling, floor, rounded, sign
from filter.expr.patterns import regexp
from filter.expr.textnumbers import condition
from filter.expr.values import Value

NOT_ON_5 = frozenset("ISNULL NULLIF FLOOR CEIL CEILING ROUND TRUNCATE".split())
"""Functions that MySQL 5 evaluates in another way."""
NOT_ON_MARIADB = frozenset({"REGEXP_LIKE"})

Maker = Callable[[list[Value], Context, int], Value]
_MANY = 64

FUNCTIONS: dict[str, tuple[int, int, Maker]] = {
    "IF": (3, 3, lambda a, c, at: logic.choose([condition(a[0], c.server)], a[1:], at)),
    "IFNULL": (2, 2, lambda a, c, at: logic.coalesce(a, at)),
    "COALESCE": (1, _MANY, lambda a, c, at: logic.coalesce(a, at)),
    "NULLIF": (2, 2, lambda a, c, at: logic.nullif(a[0], a[1], c.server, at)),
    "ISNULL": (1, 1, lambda a, c, at: logic.is_(a[0], "NULL", at)),
    "MOD": (2, 2, lambda a, c, at: binary("%", a[0], a[1], Server(False, False), at)),
    "ABS": (1, 1, lambda a, c, at: absolute(a[0], at)),
    "SIGN": (1, 1, lambda a, c, at: sign(a[0], at)),
    "LENGTH": (1, 1, lambda a, c, at: strings.length(a[0], at)),
    "OCTET_LENGTH": (1, 1, lambda a, c, at: strings.length(a[0], at)),
    "CHAR_LENGTH": (1, 1, lambda a, c, at: strings.char_length(a[0], at)),
    "CHARACTER_LENGTH": (1, 1, lambda a, c, at: strings.char_length(a[0], at)),
}
"""By name: least and most arguments, and what makes the value."""


def _date_part(name: str) -> Maker:
    return lambda a, c, at: part(name, a[0], c.server, at)


def _regexp_like(args: list[Value], context: Context, at: int) -> Value:
    flags = args[2] if len(args) > 2 else None
    return regexp(args[0], args[1], flags, context.session, at, "REGEXP_LIKE")


FUNCTIONS |= {name: (1, 1, _date_part(name)) for name in DATE_PARTS}
FUNCTIONS |= {
    "DATE": (1, 1, lambda a, c, at: day(a[0], at)),
    "TO_DAYS": (1, 1, lambda a, c, at: day_number(a[0], at)),
    "DATEDIFF": (2, 2, lambda a, c, at: days_between(a[0], a[1], at)),
    "DAYOFWEEK": (1, 1, lambda a, c, at: day_of("DAYOFWEEK", a[0], at)),
    "WEEKDAY": (1, 1, lambda a, c, at: day_of("WEEKDAY", a[0], at)),
    "DAYOFYEAR": (1, 1, lambda a, c, at: day_of("DAYOFYEAR", a[0], at)),
    "FLOOR": (1, 1, lambda a, c, at: floor(a[0], c.server, at)),
    "CEIL": (1, 1, lambda a, c, at: ceiling(a[0], c.server, at)),
    "CEILING": (1, 1, lambda a, c, at: ceiling(a[0], c.server, at)),
    "ROUND": (1, 2, lambda a, c, at: rounded("ROUND", a, at)),
    "TRUNCATE": (2, 2, lambda a, c, at: rounded("TRUNCATE", a, at)),
    "SUBSTRING": (2, 3, lambda a, c, at: texts.substring(a, at)),
    "SUBSTR": (2, 3, lambda a, c, at: texts.substring(a, at)),
    "MID": (3, 3, lambda a, c, at: texts.substring(a, at)),
    "LEFT": (2, 2, lambda a, c, at: texts.left(a, at)),
    "RIGHT": (2, 2, lambda a, c, at: texts.right(a, at)),
    "TRIM": (1, 1, lambda a, c, at: texts.trim(a, at, "TRIM")),
    "LTRIM": (1, 1, lambda a, c, at: texts.trim(a, at, "LTRIM")),
    "RTRIM": (1, 1, lambda a, c, at: texts.trim(a, at, "RTRIM")),
    "LOWER": (1, 1, lambda a, c, at: texts.change_case(a, at, True)),
    "LCASE": (1, 1, lambda a, c, at: texts.change_case(a, at, True)),
    "UPPER": (1, 1, lambda a, c, at: texts.change_case(a, at, False)),
    "UCASE": (1, 1, lambda a, c, at: texts.change_case(a, at, False)),
    "CONCAT": (1, _MANY, lambda a, c, at: texts.concat(a, at)),
    "REGEXP_LIKE": (2, 3, _regexp_like),
}
