"""Where a statement names tables and databases, by position in its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from cdc.schema.session import Session
from cdc.schema.tokens import Cursor, DDLNotUnderstood, Item, Kind, read_statement, tokenize


class Verb(StrEnum):
    """What kind of statement it is, as far as rewriting cares."""

    CREATE = "create table"
    ALTER = "alter table"
    DROP = "drop table"
    RENAME = "rename table"
    TRUNCATE = "truncate table"
    CREATE_INDEX = "create index"
    DROP_INDEX = "drop index"
    DATABASE = "database"


@dataclass(frozen=True, slots=True)
class Named:
    """A table's name in the text: ``text[start:end]``, its parts and what is between them."""

    start: int
    end: int
    schema: str
    name: str

    @property
    def table(self) -> tuple[str, str]:
        """``(schema, name)``."""
        return self.schema, self.name


@dataclass(slots=True)
class Parsed:
    """A statement as items with all names of tables that it has.

    ``first`` is the index of the verb, ``body`` that of the first item behind the name of the table
    (CREATE, ALTER). ``tables`` are the tables that the statement is about, in its order; for RENAME
    old and new in turn. ``others`` are names elsewhere: LIKE, REFERENCES, UNION, EXCHANGE.
    ``schema`` is the database of a statement about one, with its place unless it is the session's.

    """

    verb: Verb
    text: str
    items: list[Item]
    first: int = 0
    body: int = 0
    tables: list[Named] = field(default_factory=list)
    others: list[Named] = field(default_factory=list)
    schema: str = ""
    schema_at: tuple[int, int] | None = None
    like: bool = False
    replacing: bool = False
    conditional: bool = False


_SHOWN = 500


def shown(sql: str, session: Session, length: int = _SHOWN) -> str:
    """A statement as it may be shown: without passwords, which FEDERATED tables have."""
    try:
        text, items = tokenize(sql, session)
    except DDLNotUnderstood:
        return "(not readable)"
    for i in range(len(items) - 1, 0, -1):
        if items[i].kind is not Kind.STRING:
            continue
        word = items[i - 1 - (i > 1 and items[i - 1].is_punct("="))]
        if word.is_word("CONNECTION", "PASSWORD"):
            text = f"{text[: items[i].start]}'…'{text[items[i].end :]}"
    return text[:length]


def parse(sql: str, session: Session) -> Parsed:
    """Find all names. Raises ``DDLNotUnderstood`` for what is none of the verbs."""
    c = read_statement(sql, session)
    first = c.at
    head = c.next()
    reader = _READERS.get(head.text.upper())
    if reader is None:
        raise c.error("no statement that is delivered")
    parsed = Parsed(Verb.ALTER, c.text, c.items, first)
    reader(c, parsed, session)
    return parsed


def _named(c: Cursor, session: Session) -> Named:
    start = c.peek()
    schema, name = c.table(session)
    assert start is not None
    return Named(start.start, c.items[c.at - 1].end, schema, name)


def _create(c: Cursor, p: Parsed, session: Session) -> None:
    p.replacing = c.word("OR", "REPLACE")
    if _database(c, p, session):
        return
    if c.word("TABLE"):
        p.verb = Verb.CREATE
        p.conditional = c.word("IF", "NOT", "EXISTS")
        p.tables.append(_named(c, session))
        p.body = c.at
        opened = c.punct("(")
        if c.word("LIKE"):
            p.like = True
            p.others.append(_named(c, session))
            return
        if opened:
            c.at -= 1
        _scan(c, p, session)
        return
    _index(c, p, session, Verb.CREATE_INDEX)


def _index(c: Cursor, p: Parsed, session: Session, verb: Verb) -> None:
    p.verb = verb
    while not c.word("INDEX"):
        item = c.next()
        if not item.is_word("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
            raise c.error("no statement that is delivered")
    p.conditional = c.word("IF", "NOT", "EXISTS") or c.word("IF", "EXISTS")
    c.name()
    while not c.word("ON"):
        c.next()
    p.tables.append(_named(c, session))
    c.wait()
    p.body = c.at


def _alter(c: Cursor, p: Parsed, session: Session) -> None:
    if _database(c, p, session):
        return
    while c.word("ONLINE") or c.word("OFFLINE") or c.word("IGNORE"):
        pass
    if not c.word("TABLE"):
        raise c.error("no statement that is delivered")
    p.verb = Verb.ALTER
    p.conditional = c.word("IF", "EXISTS")
    p.tables.append(_named(c, session))
    c.wait()
    p.body = c.at
    _scan(c, p, session)


def _drop(c: Cursor, p: Parsed, session: Session) -> None:
    if _database(c, p, session):
        return
    if c.word("TABLE") or c.word("TABLES"):
        p.verb = Verb.DROP
        p.conditional = c.word("IF", "EXISTS")
        p.tables.append(_named(c, session))
        while c.punct(","):
            p.tables.append(_named(c, session))
        return
    _index(c, p, session, Verb.DROP_INDEX)


def _rename(c: Cursor, p: Parsed, session: Session) -> None:
    if not c.word("TABLE") and not c.word("TABLES"):
        raise c.error("no statement that is delivered")
    p.verb = Verb.RENAME
    p.conditional = c.word("IF", "EXISTS")
    while True:
        p.tables.append(_named(c, session))
        c.wait()
        if not c.word("TO"):
            raise c.error("TO was expected")
        p.tables.append(_named(c, session))
        if not c.punct(","):
            return


def _truncate(c: Cursor, p: Parsed, session: Session) -> None:
    c.word("TABLE")
    p.verb = Verb.TRUNCATE
    p.tables.append(_named(c, session))


def _database(c: Cursor, p: Parsed, session: Session) -> bool:
    if not c.word("DATABASE") and not c.word("SCHEMA"):
        return False
    p.verb = Verb.DATABASE
    p.conditional = c.word("IF", "NOT", "EXISTS") or c.word("IF", "EXISTS")
    p.schema = session.default_schema
    if c.is_database(c.items[p.first].word):
        item = c.next()
        p.schema, p.schema_at = item.text, (item.start, item.end)
    p.body = c.at
    return True


def _scan(c: Cursor, p: Parsed, session: Session) -> None:
    """Names of tables in column definitions, constraints, options and actions."""
    depth = 0
    while (item := c.peek()) is not None:
        if item.kind is Kind.PUNCT:
            depth += (item.text == "(") - (item.text == ")")
        if c.word("REFERENCES") or c.word("VALUE", "FOR"):
            p.others.append(_named(c, session))
        elif depth == 0 and p.verb is Verb.ALTER and _other(c, p, session):
            pass
        elif depth == 0 and c.word("UNION"):
            _union(c, p, session)
        else:
            c.next()


def _union(c: Cursor, p: Parsed, session: Session) -> None:
    c.punct("=")
    if not c.punct("("):
        raise c.error("tables of a UNION were expected")
    while not c.punct(")"):
        p.others.append(_named(c, session))
        c.punct(",")


def _other(c: Cursor, p: Parsed, session: Session) -> bool:
    """The second table of an action, if one comes next."""
    at = c.at
    if c.word("EXCHANGE", "PARTITION") or c.word("CONVERT", "PARTITION"):
        c.name()
        if c.word("WITH", "TABLE") or c.word("TO", "TABLE"):
            p.others.append(_named(c, session))
        return True
    if c.word("CONVERT", "TABLE"):
        p.others.append(_named(c, session))
        return True
    if not _begins_action(c) or not c.word("RENAME"):
        c.at = at
        return False
    following = c.peek()
    if following is None or following.is_word("COLUMN", "INDEX", "KEY", "CONSTRAINT"):
        return True
    if not c.word("TO") and not c.word("AS"):
        c.punct("=")
    p.others.append(_named(c, session))
    return True


def _begins_action(c: Cursor) -> bool:
    before = c.items[c.at - 1]
    return before.is_punct(",") or before.kind is not Kind.PUNCT


_READERS = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
}
