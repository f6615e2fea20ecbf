"""SQL text as a flat list of items, on sqlglot's MySQL tokenizer.

sqlglot drops comments; the executable ones (``/*!50100 … */``, ``/*M! … */``) are part of the
statement on servers at or above their version, so they are unwrapped before tokenizing.
Executable comments: MySQL manual "Comments", MariaDB knowledge base "Comment Syntax".
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from cdc.base.errors import DefiniteError
from cdc.base.redaction import user_data
from cdc.schema.session import Session as Session


class _Plain(MySQL):  # type: ignore[misc]
    """MySQL's tokens, without sqlglot's habit of swallowing what follows a command word."""

    class Tokenizer(MySQL.Tokenizer):  # type: ignore[misc]
        COMMANDS: ClassVar[set[Any]] = set()
        # Words are told apart here; without them in its tables it is a third faster.
        KEYWORDS: ClassVar[dict[str, Any]] = {
            text: kind
            for text, kind in MySQL.Tokenizer.KEYWORDS.items()
            if not any(ch.isalpha() or ch in "{%" for ch in text)
        }


class _PlainBackslash(_Plain):
    """The same under sql_mode NO_BACKSLASH_ESCAPES."""

    class Tokenizer(_Plain.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']
        ESCAPE_FOLLOW_CHARS: ClassVar[list[str]] = []


_DIALECTS = {False: _Plain(), True: _PlainBackslash()}


class DDLNotUnderstood(DefiniteError):
    """A statement that we cannot read; nothing may be decoded behind it."""

    code = "TG:ErrDDLNotUnderstood"


NOT_UNDERSTOOD_HINT = "report the statement with its server version"


class Kind(Enum):
    """What an item is."""

    WORD = "word"
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    PUNCT = "punct"


class Item(NamedTuple):
    """A token: ``text`` is the value (unquoted), ``start``/``end`` its range in the SQL text.

    ``word`` is the text of a word in capitals; of anything else, also of quoted names, it is empty.
    """

    kind: Kind
    text: str
    start: int
    end: int
    word: str = ""

    def is_word(self, *words: str) -> bool:
        """Whether it is one of the (upper-case) keywords, not quoted."""
        return self.word in words

    def is_punct(self, text: str) -> bool:
        """Whether it is this punctuation."""
        return self.kind is Kind.PUNCT and self.text == text


_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|0x[0-9a-fA-F]+|0b[01]+|\d+[kKmMgG]")
_QUOTES = "'\"`"
_EXECUTABLE = re.compile(r"/\*(M?)!(\d{5,6})?")


def _skip_quoted(sql: str, i: int, backslash: bool) -> int:
    quote = sql[i]
    i += 1
    while i < len(sql):
        if sql[i] == "\\" and backslash and quote != "`":
            i += 2
        elif sql[i] == quote:
            if sql[i + 1 : i + 2] == quote:
                i += 2
            else:
                return i + 1
        else:
            i += 1
    return i


def unwrap_comments(sql: str, session: Session) -> str:
    """The text with executable comments opened and all others blanked; length is kept."""
    if "/*" not in sql:
        return sql
    out = list(sql)
    i, depth = 0, 0
    while i < len(sql):
        c = sql[i]
        if c in _QUOTES:
            i = _skip_quoted(sql, i, not session.no_backslash_escapes)
        elif c == "#" or (c == "-" and re.match(r"--(\s|$)", sql[i : i + 3])):
            end = sql.find("\n", i)
            i = len(sql) if end < 0 else end
        elif sql.startswith("*/", i) and depth:
            out[i : i + 2] = "  "
            depth -= 1
            i += 2
        elif sql.startswith("/*", i):
            m = _EXECUTABLE.match(sql, i)
            if m and _applies(m, session):
                out[i : m.end()] = " " * (m.end() - i)
                depth += 1
                i = m.end()
            else:
                end = sql.find("*/", i + 2)
                end = len(sql) if end < 0 else end + 2
                out[i:end] = " " * (end - i)
                i = end
        else:
            i += 1
    return "".join(out)


def _applies(m: re.Match[str], session: Session) -> bool:
    if m.group(1) and not session.mariadb:
        return False
    if not m.group(2):
        return True
    version = int(m.group(2))
    # MariaDB leaves 50700..99999 to MySQL, unless the comment is its own (/*M!).
    if session.mariadb and not m.group(1) and 50700 <= version <= 99999:
        return False
    return session.comment_version >= version


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a"}


def unquote(text: str, backslash: bool) -> str:
    """Value of a quoted literal or name, quotes included in ``text``."""
    quote, body = text[0], text[1:-1]
    if quote not in body and "\\" not in body:
        return body
    out: list[str] = []
    i = 0
    while i < len(body):
        c = body[i]
        if c == "\\" and backslash and quote != "`" and i + 1 < len(body):
            e = body[i + 1]
            # \% and \_ keep their backslash outside of patterns
            out.append(_ESCAPES.get(e, "\\" + e if e in "%_" else e))
            i += 2
        elif c == quote and body[i + 1 : i + 2] == quote:
            out.append(c)
            i += 2
        else:
            out.append(c)
            i += 1
    return "".join(out)


def tokenize(sql: str, session: Session) -> tuple[str, list[Item]]:
    """The text with its comments resolved, and its items."""
    if len(sql) > LONG_SQL:
        return _tokenize(sql, session)
    text, items = _known(sql, session)
    return text, list(items)


# A statement is split by whoever asks what it touches, what it does and what becomes of it: by the
# owner and each changefeed, one after the other. Items are a hundred times as large as their text,
# in every process, so few statements are kept, and no long ones.
LONG_SQL = 4096


@lru_cache(maxsize=32)
def _known(sql: str, session: Session) -> tuple[str, tuple[Item, ...]]:
    text, items = _tokenize(sql, session)
    return text, tuple(items)


def _tokenize(sql: str, session: Session) -> tuple[str, list[Item]]:
    text = unwrap_comments(_without_brackets(sql, session), session)
    try:
        tokens = _DIALECTS[session.no_backslash_escapes].tokenize(text)
    except SqlglotError as e:
        raise DDLNotUnderstood(
            f"the statement cannot be split into tokens: {user_data(sql[:200])}",
            hint="report the statement; the table can be continued behind it",
        ) from e
    items: list[Item] = []
    for token in tokens:
        raw = text[token.start : token.end + 1]
        if not raw:
            continue
        start, end = token.start, token.end + 1
        if raw[0] in _QUOTES:
            name = raw[0] == "`" or (raw[0] == '"' and session.ansi_quotes)
            value = unquote(raw, not session.no_backslash_escapes)
            items.append(Item(Kind.NAME if name else Kind.STRING, value, start, end))
        elif raw[0].isdigit() and _NUMBER.fullmatch(raw):
            items.append(Item(Kind.NUMBER, raw, start, end))
        elif raw[0].isalnum() or raw[0] in "_$@" or ord(raw[0]) > 127:
            # sqlglot joins some keywords ("PRIMARY KEY"): take them apart again
            if " " not in raw and raw.isprintable():
                items.append(Item(Kind.WORD, raw, start, end, raw.upper()))
                continue
            at = start
            for word in re.findall(r"\S+", raw):
                at = text.index(word, at)
                items.append(Item(Kind.WORD, word, at, at + len(word), word.upper()))
                at += len(word)
        else:
            items.append(Item(Kind.PUNCT, raw, start, end))
    return text, items


_BRACKETS = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`|\[((?:[^\]]|\]\])+)\]",
    re.DOTALL,
)


def _without_brackets(sql: str, session: Session) -> str:
    """The text with names in backticks that sql_mode MSSQL (MariaDB) lets stand in brackets."""
    if not session.mssql:
        return sql
    return _BRACKETS.sub(lambda m: quoted(m[1].replace("]]", "]")) if m[1] else m[0], sql)


# Words that begin an option of a database, and of which none can be its name.
_RESERVED = ("CHARACTER", "COLLATE", "DEFAULT", "READ")


class Cursor:
    """Reads items one after the other."""

    def __init__(self, text: str, items: list[Item]) -> None:
        self.text = text
        self.items = items
        self.at = 0

    def peek(self, ahead: int = 0) -> Item | None:
        """The item ``ahead`` of the next, or None at the end."""
        i = self.at + ahead
        return self.items[i] if i < len(self.items) else None

    def next(self) -> Item:
        """The next item; an error at the end."""
        item = self.peek()
        if item is None:
            raise self.error("ends too early")
        self.at += 1
        return item

    def word(self, *words: str) -> bool:
        """Takes these keywords if they come next, all of them."""
        at, items = self.at, self.items
        if at + len(words) > len(items):
            return False
        for word in words:
            if items[at].word != word:
                return False
            at += 1
        self.at = at
        return True

    def punct(self, text: str) -> bool:
        """Takes this punctuation if it comes next."""
        at = self.at
        if at < len(self.items):
            item = self.items[at]
            if item.text == text and item.kind is Kind.PUNCT:
                self.at = at + 1
                return True
        return False

    def name(self) -> str:
        """The next identifier, quoted or not."""
        item = self.next()
        if item.kind not in (Kind.NAME, Kind.WORD) and not item.text.isalnum():
            raise self.error(f"a name was expected, not {user_data(repr(item.text))}")
        return item.text

    def table(self, session: Session) -> tuple[str, str]:
        """Schema and name of a table; the schema is the session's where none is said."""
        name = self.name()
        if not self.punct("."):
            return session.default_schema, name
        return session.database(name), self.name()

    def is_database(self, verb: str) -> bool:
        """Whether the name of a database comes next; ALTER may leave it out before its options.

        A database may be called as options are that are no reserved words.
        """
        item, following = self.peek(), self.peek(1)
        if item is None or (verb == "ALTER" and item.is_word(*_RESERVED)):
            return False
        if verb != "ALTER" or not item.is_word("COMMENT", "CHARSET", "ENCRYPTION"):
            return True
        if following is None or following.is_punct("=") or following.kind is Kind.STRING:
            return False
        options = (*_RESERVED, "COMMENT", "CHARSET", "ENCRYPTION")
        return not item.is_word("CHARSET") or following.is_word(*options)

    def wait(self) -> None:
        """Takes how long MariaDB shall wait for a lock: ``WAIT n`` or ``NOWAIT``."""
        if self.word("WAIT"):
            self.next()
        else:
            self.word("NOWAIT")

    def skip_group(self) -> None:
        """Skips ``( … )`` whose opening parenthesis comes next."""
        depth = 0
        while True:
            item = self.next()
            if item.is_punct("("):
                depth += 1
            elif item.is_punct(")"):
                depth -= 1
                if depth == 0:
                    return

    def error(self, what: str) -> DDLNotUnderstood:
        """An error that shows the text around the cursor."""
        item = self.peek()
        at = item.start if item else len(self.text)
        return DDLNotUnderstood(
            f"{what}; near: {user_data(repr(self.text[max(0, at - 40) : at + 60]))}",
            hint=NOT_UNDERSTOOD_HINT,
        )


def read_statement(sql: str, session: Session) -> Cursor:
    """A cursor at the first word of a statement; semicolons at its end are gone.

    MariaDB's ``SET STATEMENT variable = value, … FOR`` before it is passed over.
    """
    text, items = tokenize(sql, session)
    while items and items[-1].is_punct(";"):
        items.pop()
    c = Cursor(text, items)
    if c.word("SET", "STATEMENT"):
        while not c.word("FOR"):
            item = c.peek()
            if item is not None and item.is_punct("("):
                c.skip_group()
            else:
                c.next()
    return c


def quoted(*names: str) -> str:
    """Identifiers in backticks, joined by dots."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)
