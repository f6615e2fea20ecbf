"""What a statement of a QUERY event touches.

Every statement is recognised: it touches named tables, or whole schemas, or it is known to change
no columns and no rows; anything else raises ``DDLNotUnderstood``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.schema.session import Session
from cdc.schema.tokens import Cursor, DDLNotUnderstood, Item, read_statement

TableName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Touched:
    """``kind`` is the statement's own words (``alter table``); tables are ``(schema, name)``.

    ``renames`` are (old, new) in the order of the statement. ``referenced`` are tables that it only
    reads: parents of foreign keys, the model of a LIKE.
    """

    kind: str
    tables: tuple[TableName, ...] = ()
    schemas: tuple[str, ...] = ()
    renames: tuple[tuple[TableName, TableName], ...] = ()
    referenced: tuple[TableName, ...] = ()


# Statements that change neither columns nor rows of a base table, by their first words.
_HARMLESS_HEADS = frozenset(
    [
        "ANALYZE",
        "CHECK",
        "CHECKSUM",
        "OPTIMIZE",
        "REPAIR",
        "GRANT",
        "REVOKE",
        "FLUSH",
        "SET",
        "RESET",
        "BINLOG",
        "PURGE",
        "INSTALL",
        "UNINSTALL",
        "CACHE",
        "LOCK",
        "UNLOCK",
        "KILL",
        "SHOW",
        "USE",
        "SAVEPOINT",
        "RELEASE",
        "ROLLBACK",
        "BEGIN",
        "COMMIT",
        "START",
        "CALL",
        "DO",
        "XA",
        "CHANGE",
        "STOP",
        "HELP",
        "DESCRIBE",
        "DESC",
        "EXPLAIN",
        "SIGNAL",
        "SHUTDOWN",
    ]
)
OBJECTS = frozenset(
    [
        "VIEW",
        "TRIGGER",
        "PROCEDURE",
        "FUNCTION",
        "EVENT",
        "USER",
        "ROLE",
        "SERVER",
        "TABLESPACE",
        "LOGFILE",
        "UNDO",
        "RESOURCE",
        "REFERENCE",
        "LIBRARY",
        "SEQUENCE",
        "PACKAGE",
        "INSTANCE",
        "CATALOG",
    ]
)


def touched(sql: str, session: Session) -> Touched:
    """Tables and schemas that the statement changes; see the module's docstring."""
    c = read_statement(sql, session)
    if not c.items:
        return Touched("empty")
    head = c.next()
    word = head.text.upper()
    if word in _HARMLESS_HEADS:
        return Touched(word.lower())
    if word == "RENAME":
        return _rename(c, session)
    if word == "TRUNCATE":
        c.word("TABLE")
        return Touched("truncate table", (c.table(session),))
    if word in ("CREATE", "ALTER", "DROP"):
        return _define(word, c, session)
    raise DDLNotUnderstood(
        f"the statement is not known: {sql[:200]}", hint="report the statement and server version"
    )


def _rename(c: Cursor, session: Session) -> Touched:
    if c.word("USER"):
        return Touched("rename user")
    if not c.word("TABLE") and not c.word("TABLES"):
        raise c.error("RENAME of something unknown")
    c.word("IF", "EXISTS")
    pairs: list[tuple[TableName, TableName]] = []
    while True:
        old = c.table(session)
        c.wait()
        if not c.word("TO"):
            raise c.error("TO was expected")
        pairs.append((old, c.table(session)))
        if not c.punct(","):
            names = dict.fromkeys(name for pair in pairs for name in pair)
            return Touched("rename table", tuple(names), renames=tuple(pairs))


def _define(verb: str, c: Cursor, session: Session) -> Touched:
    kind = verb.lower()
    temporary = False
    while True:
        item = c.peek()
        if item is None:
            raise c.error("the statement ends too early")
        word = item.text.upper()
        if word in ("DATABASE", "SCHEMA"):
            c.next()
            return _database(kind, c, session)
        if word in ("TABLE", "TABLES"):
            c.next()
            break
        if word == "INDEX":
            c.next()
            return _on_index(kind, c, session)
        if word in OBJECTS:
            return Touched(f"{kind} {word.lower()}")
        if word == "TEMPORARY":
            temporary = True
        _modifier(c, item)
    if temporary:
        return Touched(f"{kind} temporary table")
    return _define_table(kind, c, session)


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


def _database(kind: str, c: Cursor, session: Session) -> Touched:
    if not c.word("IF", "NOT", "EXISTS"):
        c.word("IF", "EXISTS")
    schema = c.name() if c.is_database(kind.upper()) else session.default_schema
    return Touched(f"{kind} database", schemas=(schema,))


def _on_index(kind: str, c: Cursor, session: Session) -> Touched:
    while True:
        item = c.next()
        if item.is_word("ON"):
            return Touched(f"{kind} index", (c.table(session),))


def _define_table(kind: str, c: Cursor, session: Session) -> Touched:
    if not c.word("IF", "NOT", "EXISTS"):
        c.word("IF", "EXISTS")
    tables = [c.table(session)]
    if kind == "drop":
        while c.punct(","):
            tables.append(c.table(session))
        return Touched("drop table", tuple(dict.fromkeys(tables)))
    start = c.at
    renamed: TableName | None = None
    if kind == "alter":
        c.wait()
        if (maintained := _maintenance(c)) is not None:
            return Touched(maintained)
        c.at = start
        others, renamed = _other_tables(c, session)
        tables += others
    c.at = start
    return Touched(
        f"{kind} table",
        tuple(dict.fromkeys(tables)),
        renames=((tables[0], renamed),) if renamed is not None else (),
        referenced=_referenced(c, session),
    )


def _maintenance(c: Cursor) -> str | None:
    """``analyze partition`` and the like, which leave columns and rows as they are."""
    for verb in ("ANALYZE", "CHECK", "OPTIMIZE", "REPAIR"):
        if c.word(verb, "PARTITION"):
            return f"{verb.lower()} partition"
    return None


def _referenced(c: Cursor, session: Session) -> tuple[TableName, ...]:
    """Tables behind REFERENCES and LIKE."""
    found: list[TableName] = []
    if c.word("LIKE"):
        found.append(c.table(session))
    previous: Item | None = None
    while (item := c.peek()) is not None:
        c.next()
        opened = previous is not None and previous.is_punct("(") and item.is_word("LIKE")
        previous = item
        if (opened or item.is_word("REFERENCES")) and _is_name(c.peek()):
            found.append(c.table(session))
    return tuple(dict.fromkeys(found))


def _is_name(item: Item | None) -> bool:
    return item is not None and not any(map(item.is_punct, "(),;"))


def _other_tables(c: Cursor, session: Session) -> tuple[list[TableName], TableName | None]:
    """Second tables of an ALTER: those of RENAME, EXCHANGE PARTITION and CONVERT PARTITION.

    The one of RENAME is also the second result.
    """
    found: list[TableName] = []
    renamed: TableName | None = None
    while (item := c.peek()) is not None:
        if item.is_punct("("):
            c.skip_group()
        elif c.word("EXCHANGE", "PARTITION"):
            c.name()
            if c.word("WITH", "TABLE"):
                found.append(c.table(session))
        elif c.word("CONVERT", "PARTITION"):
            c.name()
            if c.word("TO", "TABLE"):
                found.append(c.table(session))
        elif c.word("CONVERT", "TABLE"):
            found.append(c.table(session))
        elif c.word("RENAME"):
            nxt = c.peek()
            if nxt is not None and not nxt.is_word("COLUMN", "INDEX", "KEY", "CONSTRAINT"):
                if not c.word("TO"):
                    c.word("AS")
                renamed = c.table(session)
                found.append(renamed)
        else:
            c.next()
    return found, renamed
