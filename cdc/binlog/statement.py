"""What the text of a QUERY is, told by its first words: a step of a transaction, rows, or more.

Whatever is not recognised is nobody's step and no comment: it counts as a statement that may change
tables, and is judged by those who read all of it (``cdc.schema``).
"""

from __future__ import annotations

import re

from cdc.binlog.errors import StatementFormat

_COMMENTS = r"\s+|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/|#[^\n]*(?:\n|\Z)|--(?=\s|\Z)[^\n]*(?:\n|\Z)"
_SPACE = re.compile(f"(?:{_COMMENTS})+")
_EXECUTABLE = re.compile(r"/\*M?!\d*")
_WORD = re.compile(r"[A-Za-z_]+")
_CHANGES_DATA = frozenset(
    {"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "WITH", "SELECT", "VALUES"}
)
_SET_STATEMENT = re.compile(r"SET\s+STATEMENT\b.*?\bFOR\b", re.I | re.S)
# MariaDB's ANALYZE executes a statement that changes rows; of tables it gathers statistics.
_OF_TABLES = re.compile(
    rf"ANALYZE(?:{_COMMENTS})+(?:TABLES?|LOCAL|NO_WRITE_TO_BINLOG)(?![A-Za-z_])", re.I
)
# The servers' own DROP has the word in a comment that each of them executes.
_TEMPORARY = re.compile(
    rf"(?:CREATE|DROP)(?:{_COMMENTS})+(?:OR(?:{_COMMENTS})+REPLACE(?:{_COMMENTS})+)?"
    r"(?:/\*!(?:4\d{4}|50[01]\d\d)?\s*)?TEMPORARY(?![A-Za-z_])",
    re.I,
)
_STEPS = frozenset({"BEGIN", "SAVEPOINT", "COMMIT", "ROLLBACK", "START", "RELEASE", "XA"})


def _first(sql: str) -> tuple[int, bool]:
    """Where the first word begins, and whether only space and plain comments stand before it."""
    at, plain, opened = 0, True, 0
    while True:
        space = _SPACE.match(sql, at)
        if space is not None:
            at = space.end()
            continue
        if opened and sql.startswith("*/", at):
            at, opened = at + 2, opened - 1
            continue
        executable = _EXECUTABLE.match(sql, at)
        if executable is not None:
            at, plain, opened = executable.end(), False, opened + 1
            continue
        setting = _SET_STATEMENT.match(sql, at)
        if setting is not None:
            at, plain = setting.end(), False
            continue
        if not sql.startswith("(", at):
            return at, plain
        at, plain = at + 1, False


def first_word(sql: str) -> str:
    """The first word in upper case, behind comments and the opening of executable ones.

    ``""`` where there is none: then the text is empty (see :func:`is_empty`) or not understood.
    """
    word = _WORD.match(sql, _first(sql)[0])
    return word[0].upper() if word else ""


def is_empty(sql: str) -> bool:
    """Whether the text is nothing but space and comments that no server executes."""
    at, plain = _first(sql)
    return plain and at == len(sql)


def is_step(sql: str) -> bool:
    """Whether it is a step of a transaction: BEGIN, SAVEPOINT, COMMIT, XA …

    What stands behind an executable comment or SET STATEMENT is none: whether a server executes
    the first word is then not known, and servers do not write their own steps like that.
    """
    at, plain = _first(sql)
    word = _WORD.match(sql, at)
    return plain and word is not None and word[0].upper() in _STEPS


def is_temporary(sql: str) -> bool:
    """Whether it is CREATE or DROP of a temporary table, which nobody else ever sees."""
    at, plain = _first(sql)
    return plain and _TEMPORARY.match(sql, at) is not None


def is_statement_dml(sql: str) -> bool:
    """Whether a QUERY's text changes rows: INSERT, UPDATE, DELETE, REPLACE, LOAD …

    ``CREATE TABLE … SELECT`` is not one: the servers log it as rows or with its rows following.
    """
    at = _first(sql)[0]
    word = _WORD.match(sql, at)
    if word is not None and word[0].upper() == "ANALYZE":
        return _OF_TABLES.match(sql, at) is None
    return word is not None and word[0].upper() in _CHANGES_DATA


def statement_format(sql: str, *, object: str = "", position: str = "") -> StatementFormat:
    """The error that stops on such a statement; its text may hold user data, so only its kind."""
    return StatementFormat(
        f"{first_word(sql) or 'a statement'} was logged as a statement, not as rows",
        object=object,
        position=position,
        hint="SET GLOBAL binlog_format = 'ROW'",
    )
