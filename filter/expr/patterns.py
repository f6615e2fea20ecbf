"""REGEXP, RLIKE and REGEXP_LIKE: which patterns are taken on which server."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from cdc.kernels import expr_regexp
from cdc.schema.session import Session
from filter.expr.collations import UTF8
from filter.expr.columns import null
from filter.expr.convert import refused
from filter.expr.regexp.automaton import Automaton, TooLarge, build
from filter.expr.regexp.points import Dialect, byte_points
from filter.expr.regexp.syntax import parse
from filter.expr.strings import agreed, encoded, under
from filter.expr.values import BOOLEAN, Kind, Text, Type, Value, Vector, derive

Flags = npt.NDArray[np.bool_]

# ICU came with MySQL 8.0.4; MariaDB 10.4's PCRE1 does not know characters beyond the BMP.
_FIRST_MYSQL = (8, 0, 4)
_FIRST_MARIADB = (10, 11, 0)


def regexp(
    value: Value, pattern: Value, flags: Value | None, session: Session, at: int, name: str
) -> Value:
    """``value REGEXP pattern``, with the flags of REGEXP_LIKE."""
    if session.version < (_FIRST_MARIADB if session.mariadb else _FIRST_MYSQL):
        family = "MariaDB before 10.11" if session.mariadb else "MySQL before 8.0.4"
        raise refused(f"{name} of {family}", at, "use LIKE")
    if value.type.kind is not Kind.STRING or value.type.charset == "set":
        raise refused(f"{name} on a {value.type.kind.value}", at, "compare it")
    if pattern.type.kind is Kind.NULL and flags is None:
        return null(at)
    if not isinstance(pattern.literal, str):
        raise refused(f"{name} with a pattern that is no literal text", at, "write the pattern")
    type_ = agreed([value, pattern], at)
    charset = "utf8mb4" if type_.charset in UTF8 else type_.charset
    if charset not in ("utf8mb4", "latin1", "ascii") and (
        charset != "binary" or not session.mariadb
    ):
        raise refused(f"{name} of {_named(charset)}", at, "compare it otherwise")
    dialect = Dialect(not session.mariadb, charset, _ignores_case(type_, flags, at))
    search = searching(_text(pattern, type_, at), dialect, pattern.at)
    return derive(BOOLEAN, [under(value, type_)], lambda v: Vector(search(v.data), v.state), at)


def _named(charset: str) -> str:
    return "bytes on MySQL" if charset == "binary" else f"text of {charset}"


def _ignores_case(type_: Type, flags: Value | None, at: int) -> bool:
    """As the collation has it, or the last flag."""
    if flags is None or flags.literal == "":
        return type_.charset != "binary" and not type_.collation.endswith("_bin")
    if not isinstance(flags.literal, str) or set(flags.literal) - {"c", "i"}:
        raise refused("REGEXP_LIKE with flags other than 'c' and 'i'", at, "write 'c' or 'i'")
    return flags.literal.endswith("i")


def _text(pattern: Value, type_: Type, at: int) -> str:
    """The pattern's characters; its bytes, each as a character, where it is matched with bytes."""
    text = str(pattern.literal)
    data = encoded(text, type_, at)
    return data.decode("latin-1") if type_.charset == "binary" else text


@lru_cache(maxsize=32)
def _automaton(pattern: str, dialect: Dialect, at: int) -> Automaton:
    """Kept, as a rule is checked for each of many tables."""
    try:
        return build(parse(pattern, dialect, at))
    except TooLarge:
        raise refused(
            "the pattern is too large", at, "count less, or write it as several"
        ) from None


def searching(pattern: str, dialect: Dialect, at: int = 0) -> Callable[[Text], Flags]:
    """What says of each text whether the pattern is found in it.

    Raises ``ExpressionNotSupported``.
    """
    automaton = _automaton(pattern, dialect, at)
    utf8 = dialect.charset == "utf8mb4"
    points = range(256) if utf8 else byte_points(dialect.charset)
    bytes_ = np.array([automaton.class_of(p) for p in points], np.int32)
    ends = expr_regexp.NO_END
    if automaton.has_end:
        ends = expr_regexp.LINE_END if dialect.icu else expr_regexp.NEWLINE_END

    def search(text: Text) -> Flags:
        out = np.empty(len(text.starts), np.bool_)
        expr_regexp.search(
            text.buf, text.starts, text.lengths, utf8, ends, bytes_, automaton.lows,
            automaton.classes, automaton.table, automaton.width, automaton.start, out,
        )  # fmt: skip
        return out

    return search
