"""The type of a column definition: its words and parameters."""

from __future__ import annotations

from dataclasses import replace

from cdc.base.redaction import user_data
from cdc.schema.charsets import of_bytes
from cdc.schema.draft import ColumnDraft
from cdc.schema.session import Session
from cdc.schema.table import Column
from cdc.schema.tokens import Cursor, Kind
from cdc.schema.types import DEFAULT_LENGTH, PLAIN, SYNONYMS, TEMPORAL

_LONGEST_SYNONYM = max(len(k) for k in SYNONYMS)
_SCHEMAS = ("MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA")
_ORACLE = {"date": "datetime", "clob": "longtext", "blob": "longblob"}


def read_type(c: Cursor, name: str, session: Session) -> ColumnDraft:
    """The type behind a column's name, as a draft without attributes."""
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
        draft.column = draft.column.but(auto_increment=True, unsigned=True)
        draft.null, draft.unique = False, True
    if data_type == "json" and session.mariadb:
        _json_of_mariadb(draft)
    return draft


def _json_of_mariadb(draft: ColumnDraft) -> None:
    # MariaDB: JSON is LONGTEXT with this collation, whatever the table has.
    draft.column = draft.column.but(
        data_type="longtext", charset="utf8mb4", collation="utf8mb4_bin"
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
    following = c.peek(1)
    sized = first == "blob" and following is not None and following.is_punct("(")
    if session.oracle and first in _ORACLE and not sized:
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
        elif data_type in ("enum", "set") and item.text[:2].lower() in ("0x", "0b"):
            members.append(_member_of_digits(item.text[1], item.text[2:]))
        elif item.kind is Kind.NUMBER:
            numbers.append(int(float(item.text)))
        elif not item.is_punct(",") and item.kind is not Kind.WORD:
            raise c.error("the parameters of the type are not understood")
    if data_type in ("enum", "set") and not members:
        raise c.error("a list of members was expected")
    length = numbers[0] if numbers else None
    scale = numbers[1] if len(numbers) > 1 else None
    return length, scale, tuple(members)


def _member_of_digits(kind: str, digits: str) -> str:
    """The member that a hexadecimal (``x``) or bit literal (``b``) is."""
    if kind in "bB":
        size = (len(digits) + 7) // 8
        return of_bytes(int(digits or "0", 2).to_bytes(size, "big"))
    return of_bytes(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"))


def _odd_member(c: Cursor, text: str) -> str:
    # x'61', b'1100001', N'a' and _utf8'a'
    if text[:2].lower() in ("x'", "b'"):
        return _member_of_digits(text[0], text[2:-1])
    if text[:2].lower() == "n'":
        return text[2:-1]
    item = c.peek()
    if text.startswith("_") and item is not None and item.kind is Kind.STRING:
        return c.next().text
    raise c.error(f"the member {user_data(repr(text))} is not understood")
