"""Which tables a statement has changed, asked of the server alone."""

from __future__ import annotations

import re
from typing import Any

import pymysql

from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from tests.ddl_diff.compare import SCRATCH, Server
from tests.ddl_diff.words import definitions, has_words, later_defaults

Name = tuple[str, str]
# Rows move it, which no statement has to follow.
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")


class Sweep:
    """The texts of SHOW CREATE TABLE of all base tables, and of databases, as of the last look.

    A look at all of them takes long where there are many, so it is taken where the binlog has got a
    statement of which we say that it touches nothing, and else from time to time. What is in no
    binlog nobody can follow, so nothing is asked then.
    """

    _EVERY = 50

    def __init__(self, server: Server) -> None:
        self._server = server
        self._calls = 0
        self.unshown: set[Name] = set()
        self._texts = {name: self._text(name) for name in server.tables()}
        self._databases = server.databases()

    def changed(self, names: set[Name], *, logged: bool) -> set[Name]:
        """Tables that came, went or are different since the last call; we say that it is these.

        ``logged`` says that the binlog has got something since then.
        """
        self._calls += 1
        due = self._calls % self._EVERY == 0
        if not logged and not due:
            return set()
        tables = self._server.tables()
        known = {n: text for n, text in self._texts.items() if n in tables}
        found = {*self._texts} ^ tables
        whole = not names or due
        for name in tables if whole else (names | found) & tables:
            text = self._text(name)
            if known.get(name) != text:
                known[name] = text
                found.add(name)
        self._texts = known
        return found

    def _text(self, name: Name) -> str:
        text = self._server.create_table(*name)
        if text is None:
            self.unshown.add(name)
        return _COUNTER.sub("", text or "(not shown)")

    def changed_databases(self) -> dict[str, tuple[str, str] | None]:
        """Databases that came, went or have another default since the last call; None for gone."""
        before, self._databases = self._databases, self._server.databases()
        names = {*before, *self._databases}
        return {n: self._databases.get(n) for n in names if before.get(n) != self._databases.get(n)}


Words = dict[str, tuple[Any, Any]]
_UNKNOWN_SEQUENCE = re.compile(r"Unknown SEQUENCE: '(.+?)\.(.+)'|Table '(.+?)\.(.+)' doesn't exist")
# Words of MariaDB for LOCALTIME and LOCALTIMESTAMP.
_LOCAL_TIME = re.compile(r"(?:curtime|localtimestamp)\((\d*)\)")
# Two words of MariaDB for that a compressed column has no default.
_EMPTY_AND_NONE = (("''", None), (None, None))
# Words of MariaDB for no default, and for columns that say no more than that they are generated.
_NOTHING = ("NULL", "ROW START", "ROW END")


class Canonical:
    """Defaults and expressions of our tables in the server's own words.

    Both sides go through the server: a table without keys is made of what we know, in a database
    that nobody else sees and without a word in the binlog.
    """

    _MODES = ("", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "ORACLE")

    def __init__(self, cursor: Any, server: Server) -> None:
        self._cursor = cursor
        self._server = server
        self._known: dict[tuple[str, tuple[str, ...], str], Words | None] = {}
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("SET foreign_key_checks = 0")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {SCRATCH}")

    def differences(self, table: Table, schema: str, name: str) -> list[str] | None:
        """What the server says otherwise of its table; None if it does not take ours.

        An expression means what the sql_mode of its statement says, which nobody keeps: one of the
        modes has to give the server's words.
        """
        if not has_words(table):
            return []
        theirs = {k: _plain(v) for k, v in self._server.words(schema, name).items()}
        # Where such a column is made, MariaDB shows an empty default, and none behind DROP DEFAULT.
        shown_empty = {c.name for c in table.columns if c.compressed and c.default is None}
        least: list[str] | None = None
        for mode in self._MODES:
            ours = self._words(table, schema, mode)
            if ours is None:
                continue
            found = [
                f"column {column}: in words: ours {words!r}, server {theirs[column]!r}"
                for column, words in ours.items()
                if column in theirs
                and not self._same(words, theirs[column])
                and not (column in shown_empty and (words, theirs[column]) == _EMPTY_AND_NONE)
            ]
            if least is None or len(found) < len(least):
                least = found
            if not least:
                break
        return least

    def _same(self, ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> bool:
        local = _LOCAL_TIME.fullmatch(theirs[0] or "") if self._server.names_local_time else None
        if local is not None and ours[0] == f"current_timestamp({local[1]})":
            return ours[1] == theirs[1]
        return ours == theirs

    def _words(self, table: Table, schema: str, mode: str) -> Words | None:
        key = (definitions(table), later_defaults(table), mode)
        if key not in self._known:
            self._cursor.execute(f"USE {quoted(schema)}")
            self._known[key] = self._said(*key)
        return self._known[key]

    def _said(self, columns: str, later: tuple[str, ...], mode: str) -> Words | None:
        try:
            self._cursor.execute(f"DROP TABLE IF EXISTS {SCRATCH}.t")
            self._cursor.execute("SET sql_mode = %s", (mode,))
            self._create(columns)
            for change in later:
                self._cursor.execute(f"ALTER TABLE {SCRATCH}.t {change}")
        except pymysql.Error:
            return None
        return {k: _plain(v) for k, v in self._server.words(SCRATCH, "t").items()}

    def _create(self, columns: str) -> None:
        """Makes the table, and for that moment the sequences of its defaults that are gone."""
        made: list[str] = []
        try:
            while True:
                try:
                    self._cursor.execute(f"CREATE TABLE {SCRATCH}.t ({columns}) ENGINE = MyISAM")
                    return
                except pymysql.Error as error:
                    gone = _UNKNOWN_SEQUENCE.search(str(error))
                    if gone is None:
                        raise
                    name = ".".join(quoted(part) for part in gone.groups() if part)
                    self._cursor.execute(f"CREATE SEQUENCE {name}")
                    made.append(name)
        finally:
            for name in made:
                self._cursor.execute(f"DROP SEQUENCE {name}")


def _plain(words: tuple[Any, Any]) -> tuple[Any, Any]:
    default, expression = (_plain_word(w) for w in words)
    return default, expression


def _plain_word(word: Any) -> Any:
    if not isinstance(word, str):
        return word
    # The character set of the client that wrote a literal stands before it.
    text = re.sub(r"\b_[a-z0-9]+(?=\\?')", "", word)
    if re.fullmatch(r"0x([0-9A-Fa-f]{2})*", text):
        # MariaDB keeps the words of a BLOB's.
        return f"'{bytes.fromhex(text[2:]).decode('latin-1')}'"
    # MariaDB keeps a number that is the default of a text.
    text = re.sub(r"^'(-?[\d.]+)'$", r"\1", text)
    return None if text in _NOTHING else text
