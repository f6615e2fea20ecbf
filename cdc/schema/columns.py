"""Column definitions: name, type and attributes."""

from __future__ import annotations

from collections.abc import Callable

from cdc.schema.charsets import normal_charset, normal_collation
from cdc.schema.defaults import default_text
from cdc.schema.draft import ColumnDraft
from cdc.schema.expressions import balanced, read_default, read_now
from cdc.schema.session import Session
from cdc.schema.table import Generated
from cdc.schema.tokens import Cursor, Kind
from cdc.schema.typewords import read_type


def read_column(c: Cursor, session: Session) -> ColumnDraft:
    """A definition with its name."""
    return read_definition(c, column_name(c), session)


def column_name(c: Cursor) -> str:
    """A column's name; tables and schemas may stand before it."""
    name = c.name()
    while c.punct("."):
        name = c.name()
    return name


def read_definition(c: Cursor, name: str, session: Session) -> ColumnDraft:
    """The type and attributes behind a name, up to what is none of them."""
    draft = read_type(c, name, session)
    while _attribute(c, draft, session):
        pass
    return draft


# Attributes that say nothing about columns or keys; the number of items that follow the word.
_SKIPPED = {
    "COLUMN_FORMAT": 1,
    "STORAGE": 1,
    "SECONDARY_ENGINE_ATTRIBUTE": 1,
    "ENGINE_ATTRIBUTE": 1,
    "ENFORCED": 0,
}


def _attribute(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    """Reads one attribute; False where none comes next."""
    item = c.peek()
    if item is None or item.kind not in (Kind.WORD, Kind.NAME):
        return False
    word = item.word
    reader = _READERS.get(word)
    if reader is not None:
        return reader(c, d, session)
    if word in _SKIPPED:
        c.next()
        c.punct("=")
        for _ in range(_SKIPPED[word]):
            c.next()
        return True
    # MariaDB: attributes that an engine defines, always with "="
    following = c.peek(1)
    if session.mariadb and following is not None and following.is_punct("="):
        c.at += 3
        return True
    return False


def _not(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if c.word("NOT", "NULL"):
        c.word("ENABLE")
        d.null = False
        return True
    return c.word("NOT", "SECONDARY") or c.word("NOT", "ENFORCED")


def _null(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    d.null = True
    return True


def _auto_increment(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    d.column = d.column.but(auto_increment=True)
    d.null = False
    return True


def _visibility(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    d.column = d.column.but(invisible=c.next().is_word("INVISIBLE"))
    return True


def _primary(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if c.word("PRIMARY"):
        c.word("KEY")
    else:
        c.word("KEY")
    d.primary = True
    return True


def _unique(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    c.word("KEY")
    d.unique = True
    return True


def _comment(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    d.column = d.column.but(comment=c.next().text)
    return True


def _charset(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if not (c.word("CHARACTER", "SET") or c.word("CHAR", "SET") or c.word("CHARSET")):
        return False
    c.punct("=")
    if c.word("DEFAULT"):
        return True
    d.column = d.column.but(charset=normal_charset(c.next().text))
    return True


def _named_charset(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    word = c.next().text.upper()
    if word == "BYTE":
        d.byte = True
    else:
        d.column = d.column.but(charset={"ASCII": "latin1", "UNICODE": "ucs2"}[word])
    return True


def _binary(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    d.binary = True
    return True


def _collate(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    c.punct("=")
    if c.word("DEFAULT"):
        d.default_collation = True
    else:
        d.column = d.column.but(collation=normal_collation(c.next().text))
    return True


def _default(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    value = read_default(c, session)
    d.has_default = True
    text = default_text(value, d.column)
    if text is not None:
        d.column = d.column.but(default=text, default_expression=value.expression)
    return True


def _on_update(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if not c.word("ON", "UPDATE"):
        return False
    d.column = d.column.but(on_update=read_now(c))
    return True


def _serial_default(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if not c.word("SERIAL", "DEFAULT", "VALUE"):
        return False
    d.column = d.column.but(auto_increment=True)
    d.null, d.unique = False, True
    return True


def _generated(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if not (c.word("GENERATED", "ALWAYS", "AS") or c.word("AS")):
        return False
    if c.word("ROW"):
        # MariaDB system versioning: GENERATED ALWAYS AS ROW START | END, kept in the row
        if not c.word("START") and not c.word("END"):
            raise c.error("ROW START or ROW END was expected")
        c.word("HIDDEN")
        d.column = d.column.but(generated=Generated.STORED)
        d.null = False
        return True
    expression = balanced(c)
    stored = c.word("STORED") or c.word("PERSISTENT")
    if not stored:
        c.word("VIRTUAL")
    kept = Generated.STORED if stored else Generated.VIRTUAL
    d.column = d.column.but(generated=kept, expression=expression)
    return True


def _constraint(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    item = c.peek()
    if item is not None and not item.is_word("CHECK", "PRIMARY", "UNIQUE", "REFERENCES"):
        c.next()
        following = c.peek()
        if following is not None and following.is_word("REFERENCES"):
            d.constraint = item.text
    return True


def _check(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    c.skip_group()
    return True


def _references(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    skip_references(c)
    d.references = True
    return True


def skip_references(c: Cursor) -> None:
    """``REFERENCES t [(…)] [MATCH …] [ON DELETE …] [ON UPDATE …]``."""
    if not c.word("REFERENCES"):
        raise c.error("REFERENCES was expected")
    c.name()
    if c.punct("."):
        c.name()
    item = c.peek()
    if item is not None and item.is_punct("("):
        c.skip_group()
    if c.word("MATCH"):
        c.next()
    while c.word("ON", "DELETE") or c.word("ON", "UPDATE"):
        if not (c.word("SET") or c.word("NO")):
            c.next()
            continue
        c.next()


def _versioning(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if c.word("WITH", "SYSTEM", "VERSIONING"):
        d.versioned = True
        return True
    return c.word("WITHOUT", "SYSTEM", "VERSIONING")


def _compressed(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    if c.punct("="):
        c.next()
    d.column = d.column.but(compressed=True)
    return True


def _srid(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    mysql = c.next().is_word("SRID")
    c.punct("=")
    number = int(c.next().text)
    if mysql:
        d.column = d.column.but(srid=number)
    return True


_READERS: dict[str, Callable[[Cursor, ColumnDraft, Session], bool]] = {
    "NOT": _not,
    "NULL": _null,
    "AUTO_INCREMENT": _auto_increment,
    "VISIBLE": _visibility,
    "INVISIBLE": _visibility,
    "PRIMARY": _primary,
    "KEY": _primary,
    "UNIQUE": _unique,
    "COMMENT": _comment,
    "CHARACTER": _charset,
    "CHARSET": _charset,
    "CHAR": _charset,
    "ASCII": _named_charset,
    "UNICODE": _named_charset,
    "BYTE": _named_charset,
    "BINARY": _binary,
    "COLLATE": _collate,
    "DEFAULT": _default,
    "ON": _on_update,
    "SERIAL": _serial_default,
    "GENERATED": _generated,
    "AS": _generated,
    "CONSTRAINT": _constraint,
    "CHECK": _check,
    "REFERENCES": _references,
    "WITH": _versioning,
    "WITHOUT": _versioning,
    "COMPRESSED": _compressed,
    "SRID": _srid,
    "REF_SYSTEM_ID": _srid,
}
