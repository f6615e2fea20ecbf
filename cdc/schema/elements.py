"""Elements of a table as CREATE TABLE and ADD have them: columns, keys, constraints."""

from __future__ import annotations

from cdc.schema.columns import read_column, skip_references
from cdc.schema.draft import Body, KeyDraft, KeyPart
from cdc.schema.expressions import balanced
from cdc.schema.indexes import inline_keys
from cdc.schema.session import Session
from cdc.schema.tokens import Cursor, Item, Kind

_KEY_WORDS = ("KEY", "INDEX", "USING", "TYPE")
_KINDS = ("PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "VECTOR")


def read_body(c: Cursor, session: Session) -> Body:
    """Everything between the parentheses; the opening one is already taken."""
    body = Body()
    while True:
        read_element(c, body, session)
        if c.punct(","):
            continue
        if c.punct(")"):
            return body
        raise c.error("',' or ')' was expected")


def read_element(c: Cursor, body: Body, session: Session) -> None:
    """One column, key, constraint or period."""
    if not read_constraint(c, body, session):
        draft = read_column(c, session)
        body.columns.append(draft)
        body.keys += inline_keys(draft, session)


def read_constraint(c: Cursor, body: Body, session: Session) -> bool:
    """A key, constraint or period if one comes next."""
    first = c.peek()
    if first is None or first.kind is not Kind.WORD:
        return False
    word = first.text.upper()
    if word == "PERIOD" and _is_period(c):
        _period(c, body)
        return True
    if word == "CHECK" and _next_is_punct(c, "("):
        _check(c)
        return True
    constraint = ""
    if word == "CONSTRAINT":
        c.next()
        c.word("IF", "NOT", "EXISTS")
        item = c.peek()
        if item is not None and not item.is_word("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            constraint = c.name()
        if c.word("CHECK"):
            _check(c, taken=True)
            return True
    item = c.peek()
    if item is not None and item.is_word("FOREIGN") and _following(c, "KEY"):
        body.keys.append(_foreign(c, constraint))
        return True
    if item is not None and item.is_word(*_KINDS) and _is_key(c):
        body.keys.append(read_key(c, session, constraint))
        return True
    if constraint:
        raise c.error("the constraint is not understood")
    return False


def _next_is_punct(c: Cursor, text: str) -> bool:
    item = c.peek(1)
    return item is not None and item.is_punct(text)


def _following(c: Cursor, *words: str) -> bool:
    item = c.peek(1)
    return item is not None and item.is_word(*words)


def _check(c: Cursor, *, taken: bool = False) -> None:
    if not taken:
        c.next()
    c.skip_group()
    if not c.word("NOT", "ENFORCED"):
        c.word("ENFORCED")


def _is_period(c: Cursor) -> bool:
    # PERIOD [IF NOT EXISTS] FOR, and not a column of this name.
    return _following(c, "FOR") or _following(c, "IF")


def _period(c: Cursor, body: Body) -> None:
    c.next()
    conditional = c.word("IF", "NOT", "EXISTS")
    c.word("FOR")
    conditional = c.word("IF", "NOT", "EXISTS") or conditional
    name = c.name()
    if not c.punct("("):
        raise c.error("columns of the period were expected")
    start = c.name()
    if not c.punct(","):
        raise c.error("',' was expected in a period")
    end = c.name()
    if not (conditional and name.lower() in body.periods):
        body.periods[name.lower()] = (start, end)
    if conditional:
        body.conditional_periods.add(name.lower())
    if not c.punct(")"):
        raise c.error("')' was expected in a period")


def _is_key(c: Cursor) -> bool:
    # A column may be called "key" or "vector" without quotes only where a type follows.
    second = c.peek(1)
    if second is None:
        return False
    if second.is_punct("(") or second.is_word(*_KEY_WORDS):
        return True
    first = c.peek()
    if first is not None and first.is_word("PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL"):
        return True
    third = c.peek(2)
    if second.is_word("IF") and third is not None and third.is_word("NOT"):
        return True
    return third is not None and (third.is_punct("(") or third.is_word("USING", "TYPE"))


def _foreign(c: Cursor, constraint: str) -> KeyDraft:
    c.word("FOREIGN", "KEY")
    conditional = c.word("IF", "NOT", "EXISTS")
    item = c.peek()
    name = c.name() if item is not None and not item.is_punct("(") else ""
    parts = key_parts(c)
    skip_references(c)
    key = KeyDraft("KEY", constraint or name, parts, generated=True, conditional=conditional)
    key.foreign = (constraint, name)
    return key


def read_key(c: Cursor, session: Session, constraint: str = "") -> KeyDraft:
    """``[UNIQUE|FULLTEXT|…] KEY [name] [USING …] (parts) options``."""
    kind = "KEY"
    for word in ("PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
        if c.word(word):
            kind = word
    if not c.word("KEY"):
        c.word("INDEX")
    conditional = c.word("IF", "NOT", "EXISTS")
    name = ""
    item = c.peek()
    if item is not None and not item.is_punct("(") and not _algorithm(c, item):
        name = c.name()
    _using(c)
    key = KeyDraft(kind, name or constraint, key_parts(c), conditional=conditional)
    key_options(c, key, session)
    if kind == "PRIMARY":
        key.name = "PRIMARY"
    return key


def _algorithm(c: Cursor, item: Item) -> bool:
    return item.is_word("USING", "TYPE") and _following(c, "BTREE", "HASH", "RTREE")


def _using(c: Cursor) -> bool:
    item = c.peek()
    if item is not None and _algorithm(c, item):
        c.at += 2
        return True
    return False


def key_parts(c: Cursor) -> list[KeyPart]:
    """``(a, b(10) DESC, (expression), p WITHOUT OVERLAPS)``."""
    if not c.punct("("):
        raise c.error("key parts were expected")
    parts: list[KeyPart] = []
    while True:
        item = c.peek()
        if item is not None and item.is_punct("("):
            part = KeyPart("", expression=balanced(c))
        else:
            part = KeyPart(c.name())
            if c.punct("("):
                part.prefix = int(c.next().text)
                if not c.punct(")"):
                    raise c.error("')' was expected")
            part.without_overlaps = c.word("WITHOUT", "OVERLAPS")
        if not c.word("ASC"):
            part.descending = c.word("DESC")
        parts.append(part)
        if c.punct(","):
            continue
        if c.punct(")"):
            return parts
        raise c.error("',' or ')' was expected in a key")


def key_options(c: Cursor, key: KeyDraft, session: Session) -> None:
    """What may follow the parts of a key."""
    while True:
        item = c.peek()
        if item is None or item.kind not in (Kind.WORD, Kind.NAME):
            return
        if _using(c):
            continue
        described, key.described = key.described, True
        if c.word("VISIBLE") or c.word("NOT", "IGNORED"):
            key.visible = True
        elif c.word("INVISIBLE") or c.word("IGNORED"):
            key.visible = False
        elif c.word("WITH", "PARSER") or c.word("COMMENT"):
            c.next()
        elif item.is_word(
            "KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "CLUSTERING"
        ):
            c.next()
            c.punct("=")
            if not item.is_word("CLUSTERING") or _is_yes_no(c):
                c.next()
        elif session.mariadb and _next_is_punct(c, "="):
            c.at += 3
        else:
            key.described = described
            return


def _is_yes_no(c: Cursor) -> bool:
    item = c.peek()
    return item is not None and item.is_word("YES", "NO")
