"""The one reader of a statement's text, for a QUERY event as for everybody who has one.

Every statement is recognised: it touches named tables, or whole schemas, or it is known to change
no columns and no rows; anything else raises ``DDLNotUnderstood``. What columns an ALTER changes,
and how, is read when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from cdc.base.redaction import user_data
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement, Named, NameRole, Verb
from cdc.schema.tokens import (
    LONG_SQL,
    NOT_UNDERSTOOD_HINT,
    Cursor,
    DDLNotUnderstood,
    Item,
    Kind,
    read_statement,
)

# Statements that change neither columns nor rows of a base table, by their first words.
_HARMLESS_HEADS = frozenset(
    "ANALYZE CHECK CHECKSUM OPTIMIZE REPAIR GRANT REVOKE FLUSH SET RESET BINLOG PURGE INSTALL "
    "UNINSTALL CACHE LOCK UNLOCK KILL SHOW USE SAVEPOINT RELEASE ROLLBACK BEGIN COMMIT START CALL "
    "DO XA CHANGE STOP HELP DESCRIBE DESC EXPLAIN SIGNAL SHUTDOWN".split()
)
_NO_TABLES = frozenset(
    "VIEW TRIGGER PROCEDURE FUNCTION EVENT USER ROLE SERVER TABLESPACE LOGFILE UNDO RESOURCE "
    "REFERENCE LIBRARY SEQUENCE PACKAGE INSTANCE CATALOG".split()
)
_INDEX_WORDS = frozenset("ONLINE OFFLINE UNIQUE FULLTEXT SPATIAL VECTOR".split())
_REPLACING = frozenset(("OR", "REPLACE"))
# What may stand between the verb and the object of a statement that is delivered.
_MODIFIERS = {
    Verb.CREATE: _REPLACING,
    Verb.DATABASE: _REPLACING,
    Verb.CREATE_INDEX: _INDEX_WORDS | _REPLACING,
    Verb.DROP_INDEX: _INDEX_WORDS,
    Verb.ALTER: frozenset(("ONLINE", "OFFLINE", "IGNORE")),
}
_BEFORE_NAMES = frozenset("REFERENCES VALUE UNION EXCHANGE CONVERT RENAME".split())
_NOT_DELIVERED = "no statement that is delivered"
_MAINTENANCE = ("ANALYZE", "CHECK", "OPTIMIZE", "REPAIR")


class _Head(NamedTuple):
    """What is known of a statement while its first words are read; ``verb`` in small letters."""

    sql: str
    session: Session
    first: int
    verb: str
    modifiers: tuple[str, ...] = ()

    def statement(
        self,
        kind: str,
        body: int = 0,
        targets: tuple[Named, ...] = (),
        others: tuple[Named, ...] = (),
        **more: Any,
    ) -> DdlStatement:
        """All of it."""
        known = (kind, self.sql, self.session, self.first, body, self.modifiers)
        return DdlStatement(*known, targets, others, **more)


def read_ddl(sql: str, session: Session) -> DdlStatement:
    """The statement as a value. Raises ``DDLNotUnderstood``; see the module's docstring."""
    return _read(sql, session) if len(sql) > LONG_SQL else _known(sql, session)


def read_delivered(sql: str, session: Session) -> DdlStatement:
    """A statement all of whose names are found.

    Raises ``DDLNotUnderstood`` if it is not about tables, indexes or databases, or if some of its
    names are not where we look for them.
    """
    statement = read_ddl(sql, session)
    if statement.obstacle:
        raise DDLNotUnderstood(statement.obstacle, hint=NOT_UNDERSTOOD_HINT)
    if statement.verb is Verb.OTHER:
        raise statement.cursor().error(_NOT_DELIVERED)
    return statement


# The owner, each changefeed and its sink ask about a statement one after the other.
@lru_cache(maxsize=32)
def _known(sql: str, session: Session) -> DdlStatement:
    return _read(sql, session)


def _read(sql: str, session: Session) -> DdlStatement:
    c = read_statement(sql, session)
    if not c.items:
        return DdlStatement("empty", sql, session)
    first = c.at
    head = c.next()
    word = head.text.upper()
    if word in _HARMLESS_HEADS:
        return DdlStatement(word.lower(), sql, session, first)
    reader = _HEADS.get(word)
    if reader is not None:
        return reader(c, _Head(sql, session, first, word.lower()))
    raise DDLNotUnderstood(
        f"the statement is not known: {user_data(sql[:200])}",
        hint="report the statement and server version",
    )


def _named(c: Cursor, session: Session, role: NameRole = NameRole.TARGET) -> Named:
    first = c.at
    schema, name = c.table(session)
    return Named(c.items[first].start, c.items[c.at - 1].end, schema, name, role)


def _listed(c: Cursor, session: Session) -> tuple[Named, ...]:
    names = [_named(c, session)]
    while c.punct(","):
        names.append(_named(c, session))
    return tuple(names)


def _condition(c: Cursor) -> tuple[int, int] | None:
    first = c.at
    there = c.word("IF", "NOT", "EXISTS") or c.word("IF", "EXISTS")
    return (first, c.at) if there else None


def _rename(c: Cursor, head: _Head) -> DdlStatement:
    if c.word("USER"):
        return head.statement("rename user")
    if not c.word("TABLE") and not c.word("TABLES"):
        raise c.error("RENAME of something unknown")
    condition = _condition(c)
    names: list[Named] = []
    while True:
        names.append(_named(c, head.session))
        c.wait()
        if not c.word("TO"):
            raise c.error("TO was expected")
        names.append(_named(c, head.session))
        if not c.punct(","):
            break
    return head.statement("rename table", c.at, tuple(names), condition=condition)


def _truncate(c: Cursor, head: _Head) -> DdlStatement:
    c.word("TABLE")
    target = _named(c, head.session)
    return head.statement("truncate table", c.at, (target,))


def _define(c: Cursor, head: _Head) -> DdlStatement:
    """CREATE, ALTER and DROP."""
    modifiers: list[str] = []
    while True:
        item = c.peek()
        if item is None:
            raise c.error("the statement ends too early")
        word = item.text.upper()
        reader = _OBJECT_READERS.get(word)
        if reader is not None or word in _NO_TABLES:
            break
        _modifier(c, item)
        modifiers.append(item.word)
    c.next()
    head = head._replace(modifiers=tuple(modifiers))
    if reader is None:
        return _no_table(c, head, word.lower())
    return _obstructed(c, reader(c, head))


def _obstructed(c: Cursor, statement: DdlStatement) -> DdlStatement:
    """With an obstacle if its head has words that no statement has which is delivered."""
    allowed = _MODIFIERS.get(statement.verb, frozenset())
    if allowed.issuperset(statement.modifiers):
        return statement
    return replace(statement, obstacle=c.error(_NOT_DELIVERED).message)


def _modifier(c: Cursor, item: Item) -> None:
    """Skips what may stand between the verb and the object: OR REPLACE, ALGORITHM=…, DEFINER=…."""
    c.next()
    if item.is_word("DEFINER", "ALGORITHM", "SQL") and c.punct("="):
        c.next()
        # user@host: the tokenizer may give one item or several
        while (n := c.peek()) is not None and (n.text.startswith("@") or n.is_punct("@")):
            c.next()
            if n.text == "@":
                c.next()
        if (n := c.peek()) is not None and n.is_punct("("):
            c.skip_group()
        return
    if item.is_word(
        "OR", "REPLACE", "TEMPORARY", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "ONLINE",
        "OFFLINE", "IGNORE", "AGGREGATE", "SECURITY", "INVOKER", "DEFINER", "SQL", "UNDEFINED",
        "MERGE", "TEMPTABLE", "EXTERNAL", "JSON", "RELATIONAL", "DUALITY", "IF", "NOT", "EXISTS",
        "MASKING", "POLICY", "MATERIALIZED",
    ):  # fmt: skip
        return
    raise c.error(f"{item.text!r} is not understood here")


def _no_table(c: Cursor, head: _Head, what: str) -> DdlStatement:
    """What is no table; views and sequences with their names, which tables cannot have then."""
    kind = f"{head.verb} {what}"
    if what not in ("view", "sequence"):
        return head.statement(kind)
    condition = _condition(c)
    item = c.peek()
    if item is None or item.kind not in (Kind.WORD, Kind.NAME):
        return head.statement(kind)
    targets = _listed(c, head.session)
    return head.statement(kind, c.at, targets, condition=condition)


def _database(c: Cursor, head: _Head) -> DdlStatement:
    condition = _condition(c)
    schema, place = head.session.default_schema, None
    if c.is_database(head.verb.upper()):
        schema = head.session.database(c.name())
        place = c.items[c.at - 1].start, c.items[c.at - 1].end
    kind = f"{head.verb} database"
    return head.statement(kind, c.at, schema=schema, schema_at=place, condition=condition)


def _index(c: Cursor, head: _Head) -> DdlStatement:
    condition = _condition(c)
    name = item = c.next()
    while not item.is_word("ON"):
        item = c.next()
    target = _named(c, head.session)
    c.wait()
    kind = f"{head.verb} index"
    return head.statement(kind, c.at, (target,), index=name.text, condition=condition)


def _table(c: Cursor, head: _Head) -> DdlStatement:
    if "TEMPORARY" in head.modifiers:
        return head.statement(f"{head.verb} temporary table")
    return _TABLE_READERS[head.verb](c, head)


def _create_table(c: Cursor, head: _Head) -> DdlStatement:
    condition = _condition(c)
    target, body = _named(c, head.session), c.at
    c.punct("(")
    if c.word("LIKE"):
        names, obstacle = [_named(c, head.session, NameRole.MODEL)], ""
    else:
        c.at = body
        names, obstacle = _other_names(c, head.session, alter=False)
    others = tuple(names)
    return head.statement(
        Verb.CREATE.value, body, (target,), others, condition=condition, obstacle=obstacle
    )


def _alter_table(c: Cursor, head: _Head) -> DdlStatement:
    condition = _condition(c)
    target = _named(c, head.session)
    c.wait()
    body = c.at
    for verb in _MAINTENANCE:
        if c.word(verb, "PARTITION"):
            # Columns and rows stay as they are.
            return head.statement(f"{verb.lower()} partition", body, (target,))
    names, obstacle = _other_names(c, head.session, alter=True)
    others = tuple(names)
    return head.statement(
        Verb.ALTER.value, body, (target,), others, condition=condition, obstacle=obstacle
    )


def _drop_table(c: Cursor, head: _Head) -> DdlStatement:
    condition = _condition(c)
    targets = _listed(c, head.session)
    return head.statement(Verb.DROP.value, c.at, targets, condition=condition)


def _other_names(c: Cursor, session: Session, *, alter: bool) -> tuple[list[Named], str]:
    """Names in definitions, options and actions, and what is wrong with them, if anything is."""
    names: list[Named] = []
    obstacle = ""
    depth = 0
    while (item := c.peek()) is not None:
        if item.word not in _BEFORE_NAMES:
            if item.kind is Kind.PUNCT:
                depth += (item.text == "(") - (item.text == ")")
            c.at += 1
        elif depth == 0 and item.word == "UNION":
            obstacle = _union(c, session, names) or obstacle
        elif (role := _role_behind(c, item, action=alter and depth == 0)) is not None:
            names.append(_named(c, session, role))
        else:
            c.at += 1
    if alter and depth > 0:
        raise c.error("ends too early")
    return names, obstacle


def _is_name(item: Item | None) -> bool:
    return item is not None and not any(map(item.is_punct, "(),;"))


def _role_behind(c: Cursor, item: Item, *, action: bool) -> NameRole | None:
    """Takes the words before the name of another table, if they come next."""
    if item.word == "REFERENCES" and _is_name(c.peek(1)):
        c.next()
        return NameRole.PARENT
    if item.word == "VALUE" and _is_name(c.peek(2)) and c.word("VALUE", "FOR"):
        return NameRole.SEQUENCE
    return _role_in_action(c) if action else None


def _union(c: Cursor, session: Session, names: list[Named]) -> str:
    """Takes the tables of UNION, or else says what is wrong: it may be one of a SELECT."""
    c.next()
    start, members = c.at, []
    try:
        c.punct("=")
        if not c.punct("("):
            raise c.error("tables of a UNION were expected")
        while not c.punct(")"):
            members.append(_named(c, session, NameRole.MEMBER))
            c.punct(",")
    except DDLNotUnderstood as e:
        c.at = start
        return e.message
    names += members
    return ""


def _role_in_action(c: Cursor) -> NameRole | None:
    """Takes the words before the second table of an action, if they come next."""
    start = c.at
    if c.word("EXCHANGE", "PARTITION"):
        c.name()
        if c.word("WITH", "TABLE"):
            return NameRole.EXCHANGED
    elif c.word("CONVERT", "PARTITION"):
        c.name()
        if c.word("TO", "TABLE"):
            return NameRole.FROM_PARTITION
    elif c.word("CONVERT", "TABLE"):
        return NameRole.TO_PARTITION
    elif _begins_action(c) and c.word("RENAME"):
        following = c.peek()
        if following is not None and not following.is_word("COLUMN", "INDEX", "KEY", "CONSTRAINT"):
            if not c.word("TO") and not c.word("AS"):
                c.punct("=")
            return NameRole.NEW_NAME
    c.at = start
    return None


def _begins_action(c: Cursor) -> bool:
    before = c.items[c.at - 1]
    return before.is_punct(",") or before.kind is not Kind.PUNCT


_Reader = Callable[[Cursor, _Head], DdlStatement]
_HEADS: dict[str, _Reader] = {
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    "CREATE": _define,
    "ALTER": _define,
    "DROP": _define,
}
_OBJECT_READERS: dict[str, _Reader] = {
    "DATABASE": _database,
    "SCHEMA": _database,
    "TABLE": _table,
    "TABLES": _table,
    "INDEX": _index,
}
_TABLE_READERS: dict[str, _Reader] = {
    "create": _create_table,
    "alter": _alter_table,
    "drop": _drop_table,
}
