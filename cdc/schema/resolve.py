"""Column drafts → columns: charset, size, nullability and text type that the server gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cdc.schema.charsets import (
    bytes_per_character,
    charset_default,
    charset_of_collation,
    decode,
    default_collation,
    encode,
    full_collation,
    is_no_text,
    stored_text,
)
from cdc.schema.draft import ColumnDraft, Options
from cdc.schema.session import Session
from cdc.schema.table import Column, Generated
from cdc.schema.tokens import DDLNotUnderstood
from cdc.schema.types import (
    BLOBS,
    CHARACTER,
    GEOMETRIES,
    NUMBERS,
    TEMPORAL,
    TEXTS,
    blob_bytes,
    column_type,
    sized_blob,
)

_LONG = TEXTS | BLOBS
_MOST_BYTES = 65535
_NOW = re.compile(r"current_timestamp\((\d*)\)")
# In characters; without strict mode the server cuts what is longer.
LONGEST_COLUMN_COMMENT = 1024
LONGEST_TABLE_COMMENT = 2048
_ZERO_TIMESTAMP = "0000-00-00 00:00:00"


def charset_pair(
    charset: str | None, collation: str | None, fallback: tuple[str, str], session: Session
) -> tuple[str, str]:
    """(charset, collation) from what was said; ``fallback`` where nothing was."""
    if charset is None and collation is None:
        return fallback
    if charset is None and collation is not None:
        charset = charset_of_collation(collation, session) or fallback[0]
    if charset is None:
        raise DDLNotUnderstood(f"the collation {collation!r} is not known")
    if collation is None:
        return charset, default_collation(charset, session)
    return charset, full_collation(collation, charset)


def said_pair(
    said: Options, present: tuple[str, str], database: tuple[str, str], session: Session
) -> tuple[str, str]:
    """(charset, collation) that options ask for.

    ``present`` is what holds where they say nothing, ``database`` what CHARACTER SET DEFAULT means.
    """
    newer = session.mariadb and session.version >= (10, 9)
    if said.default_charset or (said.default_collation and not newer):
        present = charset_default(*database, session)
    if said.default_collation and newer:
        charset = said.charset or present[0]
        return charset, default_collation(charset, session)
    return charset_pair(said.charset, said.collation, present, session)


def resolve(
    draft: ColumnDraft,
    table: tuple[str, str],
    session: Session,
    *,
    target: tuple[str, str] | None = None,
) -> Column:
    """The column as the server makes it in a table of this (charset, collation).

    ``target`` is that of CONVERT TO in the same statement: it comes before the column's own.
    """
    column = _members(_charset(draft, table, session, target))
    column = _size(column, session)
    nullable = draft.null is not False
    if draft.primary:
        nullable = False
    if _old_timestamp(draft, session):
        nullable = False
        if column.default is None:
            column = column.but(default=_ZERO_TIMESTAMP + _fraction(column))
    if session.mariadb and column.data_type in ("timestamp", "datetime"):
        column = _now_of_its_digits(column)
    if len(column.comment) > LONGEST_COLUMN_COMMENT:
        column = column.but(comment=column.comment[:LONGEST_COLUMN_COMMENT])
    # One copy for all three.
    return column.but(
        nullable=nullable,
        default=stored_default(column),
        column_type=column_type(column, session),
    )


def _now_of_its_digits(column: Column) -> Column:
    # MariaDB takes the current time with the digits that the column has, unless fewer were said.
    now = f"current_timestamp({column.scale or ''})"
    said = _NOW.fullmatch(column.default or "") if column.default_expression else None
    if said is not None and not 0 < int(said[1] or 0) < (column.scale or 0):
        column = column.but(default=now)
    return column.but(on_update=now) if column.on_update is not None else column


def stored_default(column: Column) -> str | None:
    """The default as the server has kept it, in a row of its own."""
    text = column.default
    if text is None or column.default_expression:
        return text
    if column.data_type == "char":
        return text.rstrip(" ")
    if column.data_type == "enum":
        return _member(text, column) or text
    if column.data_type == "set":
        said = {_member(part, column) for part in text.split(",")}
        return ",".join(member for member in column.members if member in said)
    return text


def _member(text: str, column: Column) -> str | None:
    text = text.rstrip(" ")
    if text in column.members:
        return text
    return next((m for m in column.members if m.casefold() == text.casefold()), None)


def retyped(column: Column, session: Session) -> Column:
    """The column with the full text of its type."""
    return column.but(column_type=column_type(column, session))


def _fraction(column: Column) -> str:
    return "." + "0" * column.scale if column.scale else ""


def _old_timestamp(draft: ColumnDraft, session: Session) -> bool:
    # Without explicit_defaults_for_timestamp a TIMESTAMP is NOT NULL unless NULL was said.
    return (
        draft.column.data_type == "timestamp"
        and not session.explicit_defaults_for_timestamp
        and draft.null is not True
        and draft.column.generated is Generated.NO
    )


def not_null(column: Column, names: set[str], session: Session) -> Column:
    """The column, NOT NULL if it is one of ``names`` (lower case)."""
    if not column.nullable or column.name.lower() not in names:
        return column
    bare = column.data_type == "timestamp" and column.default is None
    implied = column.on_update is not None or not session.explicit_defaults_for_timestamp
    if session.mariadb and bare and implied and column.generated is Generated.NO:
        # MySQL leaves it without a default, or refuses the statement.
        return column.but(nullable=False, default=_ZERO_TIMESTAMP + _fraction(column))
    return column.but(nullable=False)


def promote_first_timestamp(
    slots: Sequence[Column | ColumnDraft], session: Session
) -> Sequence[Column | ColumnDraft]:
    """In the old mode a table's first TIMESTAMP gets the current time by default.

    ``slots`` are all columns in their order, those that a statement leaves alone as ``Column``.
    """
    for i, slot in enumerate(slots):
        draft = slot if isinstance(slot, ColumnDraft) else ColumnDraft(slot, slot.nullable)
        if draft.column.data_type != "timestamp":
            continue
        plain = draft.column.default is None
        if _old_timestamp(draft, session) and plain and draft.column.on_update is None:
            now = f"current_timestamp({draft.column.scale or ''})"
            promoted = draft.column.but(default=now, default_expression=True, on_update=now)
            draft.column = promoted
            return [*slots[:i], slot if slot is draft else promoted, *slots[i + 1 :]]
        return slots
    return slots


def _members(column: Column) -> Column:
    if column.charset is None or not column.members:
        return column
    if column.charset == "binary":
        return column.but(members=tuple(_stored_member(m, "binary") for m in column.members))
    # The server drops trailing spaces of members (MySQL manual, "The ENUM Type").
    members = tuple(_stored_member(m, column.charset or "").rstrip(" ") for m in column.members)
    return column.but(members=members)


def _stored_member(member: str, charset: str) -> str:
    if is_no_text(member):
        return decode(encode(member, charset), charset)
    return stored_text(member, charset)


def _charset(
    draft: ColumnDraft,
    table: tuple[str, str],
    session: Session,
    target: tuple[str, str] | None,
) -> Column:
    column = draft.column
    if draft.byte and column.data_type in CHARACTER:
        return _binary_type(column).but(charset=None, collation=None)
    if column.data_type not in CHARACTER:
        said = column.charset is not None or column.collation is not None
        return column.but(charset=None, collation=None) if said else column
    if draft.national:
        charset, collation = "utf8mb3", default_collation("utf8mb3", session)
        if column.collation is not None:
            collation = full_collation(column.collation, charset)
    else:
        charset, collation = charset_pair(column.charset, column.collation, table, session)
        if draft.default_collation:
            collation = default_collation(charset, session)
    if draft.binary and charset != "binary":
        collation = f"{charset}_bin"
    if target is not None and charset != "binary":
        charset, collation = _of_target(draft, (charset, collation), target, session)
    column = column.but(charset=charset, collation=collation)
    if charset == "binary" and column.data_type not in ("enum", "set"):
        return _binary_type(column).but(charset=None, collation=None)
    return column


def _of_target(
    draft: ColumnDraft, present: tuple[str, str], target: tuple[str, str], session: Session
) -> tuple[str, str]:
    """What CONVERT TO makes of a new column's (charset, collation)."""
    if not draft.binary:
        return target
    column = draft.column
    if draft.national or column.charset is not None or column.collation is not None:
        # Newer servers take BINARY for a part of the character set that was said, which goes.
        newer = session.version >= ((10, 9) if session.mariadb else (8, 0))
        return target if newer else (target[0], f"{target[0]}_bin")
    return present


def _binary_type(column: Column) -> Column:
    names = {"char": "binary", "varchar": "varbinary"}
    names |= {text: text.replace("text", "blob") for text in TEXTS}
    return column.but(data_type=names.get(column.data_type, column.data_type))


def _size(column: Column, session: Session) -> Column:
    width = bytes_per_character(column.charset, session)
    kind = "text" if column.data_type in TEXTS else "blob"
    # MariaDB takes TEXT(0) for TEXT.
    newer = not session.mariadb and session.version >= (8, 0)
    sized = column.length is not None if newer else bool(column.length)
    if column.data_type in ("text", "blob") and column.length is not None and sized:
        size = column.length * width
        return column.but(data_type=sized_blob(kind, size), length=None)
    if column.data_type in _LONG:
        return column if column.length is None else column.but(length=None)
    too_long = (column.length or 0) * width > (_MOST_BYTES - 3 * session.mariadb)
    if column.data_type in ("varchar", "varbinary") and too_long:
        # Only possible without strict mode: the server takes the BLOB type that is long enough.
        kind = "text" if column.data_type == "varchar" else "blob"
        size = (column.length or 0) * width
        return column.but(data_type=sized_blob(kind, size), length=None)
    return column


def as_wide_as(old: Column, column: Column, session: Session) -> Column:
    """A TEXT or BLOB column, sized for all characters that ``old`` could hold."""
    if column.data_type not in TEXTS | BLOBS or column.data_type.startswith("long"):
        return column
    kind = "text" if column.data_type in TEXTS else "blob"
    size = _characters(old, session) * bytes_per_character(column.charset, session)
    return retyped(column.but(data_type=sized_blob(kind, size)), session)


def _characters(column: Column, session: Session) -> int:
    """The most characters of a column's values as text."""
    if column.data_type in TEXTS | BLOBS:
        width = bytes_per_character(column.charset, session)
        return (blob_bytes(column.data_type) or 0) // width
    if column.data_type in ("json", *GEOMETRIES):
        return blob_bytes("longblob") or 0
    if column.data_type == "set":
        return sum(len(m) + 1 for m in column.members) - 1
    if column.data_type == "enum":
        return max(len(m) for m in column.members)
    if column.data_type == "decimal":
        return (column.length or 0) + 2
    if column.data_type in NUMBERS | TEMPORAL or column.length is None:
        # Less than 64, and so a TINYTEXT in every character set.
        return 22
    return column.length


def _reread(column: Column, target: tuple[str, str]) -> Column:
    """The column in another character set; members keep their bytes, whatever these now say."""
    charset = column.charset or "binary"
    members = tuple(decode(encode(m, charset), target[0]) for m in column.members)
    default = column.default
    if default in column.members:
        default = members[column.members.index(default)]
    return column.but(charset=target[0], collation=target[1], members=members, default=default)


def converted(column: Column, target: tuple[str, str], session: Session) -> Column:
    """The column after CONVERT TO CHARACTER SET: texts grow so that all characters fit."""
    if column.charset in (None, "binary") or column.data_type not in CHARACTER:
        return column
    before = bytes_per_character(column.charset, session)
    column = _reread(column, target)
    if column.data_type in TEXTS:
        characters = (blob_bytes(column.data_type) or 0) // before
        size = characters * bytes_per_character(target[0], session)
        if column.data_type != "longtext":
            column = column.but(data_type=sized_blob("text", size))
    if target[0] == "binary" and column.data_type not in ("enum", "set"):
        column = _binary_type(column).but(charset=None, collation=None)
        if column.length is not None:
            column = column.but(length=column.length * before)
    return retyped(_size(column, session), session)
