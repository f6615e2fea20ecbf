"""Column definitions: name, type and attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from cdc.schema.charsets import normal_charset, normal_collation, of_bytes
from cdc.schema.draft import ColumnDraft
from cdc.schema.expressions import Default, balanced, read_default, read_now
from cdc.schema.session import Session
from cdc.schema.table import Column, Generated
from cdc.schema.tokens import Cursor, Kind
from cdc.schema.types import DEFAULT_LENGTH, INTEGERS, NUMBERS, PLAIN, SYNONYMS, TEMPORAL

# Enough digits for every DECIMAL.
_WIDE = Context(prec=100)
_LONGEST_SYNONYM = max(len(k) for k in SYNONYMS)
_SCHEMAS = ("MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA")
_ORACLE = {"date": "datetime", "clob": "longtext", "blob": "longblob"}


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
    draft = _type(c, name, session)
    while _attribute(c, draft, session):
        pass
    return draft


def _type(c: Cursor, name: str, session: Session) -> ColumnDraft:
    start = c.peek()
    if start is None or start.kind is not Kind.WORD:
        raise c.error(f"column {name!r} has no type")
    data_type, words = _type_words(c, session)
    length, scale, members = _type_parameters(c, data_type)
    if words == ("FLOAT",) and length is not None and scale is None:
        # FLOAT(p) only chooses the storage type (MySQL manual, "Floating-Point Types")
        data_type, length = ("double" if length > 24 else "float"), None
    if words == ("NUMBER",) and length is None:
        data_type = "double"
    if words == ("REAL",) and session.real_as_float:
        data_type = "float"
    if words in (("BOOL",), ("BOOLEAN",)) or (data_type == "bit" and length == 0):
        length = 1
    if data_type == "year":
        # Nothing but the old YEAR(2) is not YEAR(4).
        length = 2 if length == 2 and (session.mariadb or session.version < (5, 7)) else None
    unsigned = zerofill = False
    while True:
        if c.word("UNSIGNED"):
            unsigned = True
        elif c.word("ZEROFILL"):
            unsigned = zerofill = True
        elif not c.word("SIGNED"):
            break
    if data_type in TEMPORAL:
        length, scale = None, length or 0
    if data_type == "decimal":
        length, scale = length or 10, scale or 0
    if length is None:
        length = DEFAULT_LENGTH.get(data_type)
    column = Column(
        name,
        data_type,
        "",
        unsigned=unsigned,
        length=length,
        scale=scale,
        members=members,
        zerofill=zerofill,
    )
    draft = ColumnDraft(column)
    draft.national = words[0] in ("NATIONAL", "NCHAR", "NVARCHAR")
    if words == ("SERIAL",):
        draft.column = replace(draft.column, auto_increment=True, unsigned=True)
        draft.null, draft.unique = False, True
    if data_type == "json" and session.mariadb:
        _json_of_mariadb(draft)
    return draft


def _json_of_mariadb(draft: ColumnDraft) -> None:
    # MariaDB: JSON is LONGTEXT with this collation, whatever the table has.
    draft.column = replace(
        draft.column, data_type="longtext", charset="utf8mb4", collation="utf8mb4_bin"
    )


def _type_words(c: Cursor, session: Session) -> tuple[str, tuple[str, ...]]:
    first, second = c.peek(), c.peek(1)
    if (
        first is not None
        and first.is_word(*_SCHEMAS)
        and second is not None
        and second.is_punct(".")
    ):
        # MariaDB: the type as that mode has it
        c.at += 2
        chosen = first.text.upper()
        session = replace(session, oracle=chosen == "ORACLE_SCHEMA", maxdb=chosen == "MAXDB_SCHEMA")
    return _mode_type_words(c, session)


def _mode_type_words(c: Cursor, session: Session) -> tuple[str, tuple[str, ...]]:
    ahead: list[str] = []
    for i in range(_LONGEST_SYNONYM):
        item = c.peek(i)
        if item is None or item.kind is not Kind.WORD:
            break
        ahead.append(item.text.upper())
    first = ahead[0].lower() if ahead else ""
    if session.oracle and first in _ORACLE:
        c.at += 1
        return _ORACLE[first], (ahead[0],)
    for n in range(len(ahead), 0, -1):
        words = tuple(ahead[:n])
        if words in SYNONYMS:
            c.at += n
            return SYNONYMS[words], words
    if first in PLAIN:
        c.at += 1
        if session.maxdb and first == "timestamp":
            return "datetime", (ahead[0],)
        return first, (ahead[0],)
    raise c.error(f"type {first!r} is not known")


def _type_parameters(c: Cursor, data_type: str) -> tuple[int | None, int | None, tuple[str, ...]]:
    if not c.punct("("):
        return None, None, ()
    numbers: list[int] = []
    members: list[str] = []
    while not c.punct(")"):
        item = c.next()
        if data_type in ("enum", "set") and item.kind is Kind.STRING:
            members.append(item.text)
        elif data_type in ("enum", "set") and item.kind is Kind.WORD:
            members.append(_odd_member(c, item.text))
        elif data_type in ("enum", "set") and item.text[:2].lower() == "0x":
            members.append(of_bytes(bytes.fromhex(item.text[2:])))
        elif item.kind is Kind.NUMBER:
            numbers.append(int(float(item.text)))
        elif not item.is_punct(",") and item.kind is not Kind.WORD:
            raise c.error("the parameters of the type are not understood")
    if data_type in ("enum", "set") and not members:
        raise c.error("a list of members was expected")
    length = numbers[0] if numbers else None
    scale = numbers[1] if len(numbers) > 1 else None
    return length, scale, tuple(members)


def _odd_member(c: Cursor, text: str) -> str:
    # x'61', N'a' and _utf8'a'
    if text[:2].lower() == "x'":
        return of_bytes(bytes.fromhex(text[2:-1]))
    if text[:2].lower() == "n'":
        return text[2:-1]
    item = c.peek()
    if text.startswith("_") and item is not None and item.kind is Kind.STRING:
        return c.next().text
    raise c.error(f"the member {text!r} is not understood")


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
    word = item.text.upper() if item.kind is Kind.WORD else ""
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
    d.column = replace(d.column, auto_increment=True)
    d.null = False
    return True


def _visibility(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    d.column = replace(d.column, invisible=c.next().is_word("INVISIBLE"))
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
    d.column = replace(d.column, comment=c.next().text)
    return True


def _charset(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if not (c.word("CHARACTER", "SET") or c.word("CHAR", "SET") or c.word("CHARSET")):
        return False
    c.punct("=")
    if c.word("DEFAULT"):
        return True
    d.column = replace(d.column, charset=normal_charset(c.next().text))
    return True


def _named_charset(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    word = c.next().text.upper()
    if word == "BYTE":
        d.byte = True
    else:
        d.column = replace(d.column, charset={"ASCII": "latin1", "UNICODE": "ucs2"}[word])
    return True


def _binary(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    d.binary = True
    return True


def _collate(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    c.punct("=")
    if not c.word("DEFAULT"):
        d.column = replace(d.column, collation=normal_collation(c.next().text))
    return True


def _default(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    c.next()
    value = read_default(c, session)
    d.has_default = True
    text = default_text(value, d.column)
    if text is not None:
        d.column = replace(d.column, default=text, default_expression=value.expression)
    return True


def default_text(value: Default, column: Column) -> str | None:
    """The default as a column shows it: bits as ``b'…'``, hexadecimal numbers in decimal."""
    text = value.text
    if text is None or value.expression:
        return text
    if column.data_type == "bit":
        return value.bits or (f"b'{int(text):b}'" if text.isdigit() else text)
    if column.data_type in NUMBERS and value.bits is not None:
        return str(int(value.bits[2:-1], 2))
    if column.data_type in INTEGERS or column.data_type == "decimal" or column.scale is not None:
        return _rounded(text, column) if column.data_type in NUMBERS else text
    if column.data_type == "float":
        return _short_float(text)
    if column.data_type == "year":
        return _full_year(text, value.quoted)
    return text


def _short_float(text: str) -> str:
    # FLOAT keeps no more digits than these.
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return text


def _full_year(text: str, quoted: bool) -> str:
    # MySQL manual, "2-Digit Years in Dates".
    if not text.isdigit() or int(text) > 99 or len(text) == 4:
        return text
    year = int(text)
    if year == 0 and not quoted:
        return "0000"
    return str(year + (2000 if year < 70 else 1900))


def _rounded(text: str, column: Column) -> str:
    scale = 0 if column.data_type in INTEGERS else column.scale or 0
    try:
        value = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    except InvalidOperation:
        return text
    return f"{value:f}"


def _on_update(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if not c.word("ON", "UPDATE"):
        return False
    d.column = replace(d.column, on_update=read_now(c))
    return True


def _serial_default(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    if not c.word("SERIAL", "DEFAULT", "VALUE"):
        return False
    d.column = replace(d.column, auto_increment=True)
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
        d.column = replace(d.column, generated=Generated.STORED)
        d.null = False
        return True
    expression = balanced(c)
    stored = c.word("STORED") or c.word("PERSISTENT")
    if not stored:
        c.word("VIRTUAL")
    kept = Generated.STORED if stored else Generated.VIRTUAL
    d.column = replace(d.column, generated=kept, expression=expression)
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
    d.column = replace(d.column, compressed=True)
    return True


def _srid(c: Cursor, d: ColumnDraft, session: Session) -> bool:
    mysql = c.next().is_word("SRID")
    c.punct("=")
    number = int(c.next().text)
    if mysql:
        d.column = replace(d.column, srid=number)
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
