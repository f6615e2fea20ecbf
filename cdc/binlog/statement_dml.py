"""Recognising data changes that were logged as statements: they cannot be delivered."""

from __future__ import annotations

import re

from cdc.binlog.errors import StatementFormat

_SPACE = re.compile(
    r"(?:\s+|/\*(?![!M])(?:[^*]|\*(?!/))*\*/|#[^\n]*(?:\n|\Z)|--(?=\s|\Z)[^\n]*(?:\n|\Z))+"
)
_EXECUTABLE = re.compile(r"/\*M?!\d*\s*")
_WORD = re.compile(r"[A-Za-z_]+")
_CHANGES_DATA = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "DO", "WITH"})
_SET_STATEMENT = re.compile(r"SET\s+STATEMENT\b.*?\bFOR\b", re.I | re.S)


def first_word(sql: str) -> str:
    """The first word in upper case, behind comments and the opening of executable ones."""
    at = 0
    while True:
        for pattern in (_SPACE, _EXECUTABLE, _SET_STATEMENT):
            found = pattern.match(sql, at)
            if found is not None and found.end() > at:
                at = found.end()
                break
        else:
            if sql.startswith("(", at):
                at += 1
                continue
            word = _WORD.match(sql, at)
            return word[0].upper() if word else ""


def is_statement_dml(sql: str) -> bool:
    """Whether a QUERY's text changes rows: INSERT, UPDATE, DELETE, REPLACE, LOAD …

    ``CREATE TABLE … SELECT`` is not one: the servers log it as rows or with its rows following.
    """
    return first_word(sql) in _CHANGES_DATA


def statement_format(sql: str, *, object: str = "", position: str = "") -> StatementFormat:
    """The error that stops on such a statement; its text may hold user data, so only its kind."""
    return StatementFormat(
        f"{first_word(sql) or 'a statement'} was logged as a statement, not as rows",
        object=object,
        position=position,
        hint="SET GLOBAL binlog_format = 'ROW'",
    )
