"""sql_mode: the bits that a QUERY event carries, by the names of each family.

Sources: MariaDB ``sql/sql_class.h``, MySQL ``sql/system_variables.h`` (``MODE_…``); the numbers are
on disk in binlogs, and so never change.
"""

from __future__ import annotations

from enum import IntFlag


class SqlMode(IntFlag):
    """Modes that change what a statement means; bundles of them, and what only SHOW obeys, do not.

    The families number them alike but for bit 32.
    """

    REAL_AS_FLOAT = 1 << 0
    PIPES_AS_CONCAT = 1 << 1
    ANSI_QUOTES = 1 << 2
    IGNORE_SPACE = 1 << 3
    IGNORE_BAD_TABLE_OPTIONS = 1 << 4
    ONLY_FULL_GROUP_BY = 1 << 5
    NO_UNSIGNED_SUBTRACTION = 1 << 6
    NO_DIR_IN_CREATE = 1 << 7
    ORACLE = 1 << 9
    MSSQL = 1 << 10
    MAXDB = 1 << 12
    NO_AUTO_VALUE_ON_ZERO = 1 << 19
    NO_BACKSLASH_ESCAPES = 1 << 20
    STRICT_TRANS_TABLES = 1 << 21
    STRICT_ALL_TABLES = 1 << 22
    NO_ZERO_IN_DATE = 1 << 23
    NO_ZERO_DATE = 1 << 24
    ALLOW_INVALID_DATES = 1 << 25
    ERROR_FOR_DIVISION_BY_ZERO = 1 << 26
    HIGH_NOT_PRECEDENCE = 1 << 29
    NO_ENGINE_SUBSTITUTION = 1 << 30
    PAD_CHAR_TO_FULL_LENGTH = 1 << 31
    EMPTY_STRING_IS_NULL = 1 << 32
    TIME_TRUNCATE_FRACTIONAL = 1 << 32
    SIMULTANEOUS_ASSIGNMENT = 1 << 33
    TIME_ROUND_FRACTIONAL = 1 << 34


# Since which version a family has a mode that the other one, or an older version, has not.
_MARIADB = {
    "IGNORE_BAD_TABLE_OPTIONS": (10, 0),
    "ORACLE": (5, 0),
    "MSSQL": (5, 0),
    "MAXDB": (5, 0),
    "EMPTY_STRING_IS_NULL": (10, 3),
    "SIMULTANEOUS_ASSIGNMENT": (10, 3),
    "TIME_ROUND_FRACTIONAL": (10, 4),
}
_MYSQL = {"TIME_TRUNCATE_FRACTIONAL": (8, 0)}
_OF_ONE = _MARIADB.keys() | _MYSQL.keys()
_EVERY = sorted(SqlMode.__members__.items(), key=lambda named: named[1])


def mode_names(bits: int, *, mariadb: bool, version: tuple[int, ...]) -> list[str]:
    """Names of the modes in ``bits`` that a server of this family and version has, by bit."""
    since = _MARIADB if mariadb else _MYSQL
    known = {name for name, first in since.items() if version >= first}
    return [name for name, bit in _EVERY if bits & bit and (name in known or name not in _OF_ONE)]
