"""How a column's values are written as SQL literals, and compared byte for byte, at a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from unicodedata import normalize

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import sql_layout as S  # noqa: N812
from cdc.kernels.charsets import ENTRY, charset_code, tables
from cdc.rows.storage import Storage
from cdc.schema.table import Column
from cdc.schema.tokens import quoted

_UTF8: Final = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_TEXTS: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)
_UTF8_INTRODUCER: Final = b"_utf8mb4 "
_CONCAT: Final = b"CONCAT_WS(','"
_CAST: Final = b"CAST( AS JSON)"
_QUOTED: Final = frozenset(
    {
        *(L.OP_DATE, L.OP_TIME2, L.OP_DATETIME2, L.OP_TIMESTAMP2, L.OP_UUID, L.OP_INET4),
        *(L.OP_INET6, L.OP_OLD_TIME, L.OP_OLD_DATETIME, L.OP_OLD_TIMESTAMP),
    }
)
_PLAIN: Final = frozenset({L.OP_DECIMAL, L.OP_YEAR, L.OP_BIT})


@dataclass(frozen=True, slots=True)
class LiteralForm:
    """A literal form of ``sql_layout`` with what its parameters point to.

    ``introducer`` stands before hexadecimal text; ``constant`` is a constant of the form's own;
    ``numbers`` are ordinals at the target (-1 where it has none), ``literals`` those of members.
    The literal takes ``room`` bytes and ``factor`` for each stored one.
    """

    form: int
    introducer: bytes = b""
    constant: bytes = b""
    numbers: tuple[int, ...] = ()
    literals: tuple[bytes, ...] = ()
    width: int = 0
    room: int = 64
    factor: int = 2


def literal(text: str) -> bytes:
    """A string literal of UTF-8 that every sql_mode reads alike."""
    data = text.encode()
    if b"\\" in data:
        return _UTF8_INTRODUCER + b"x'" + data.hex().upper().encode() + b"'"
    return b"'" + data.replace(b"'", b"''") + b"'"


def value_form(source: Column, stored: Storage, target: Column, *, mariadb: bool) -> LiteralForm:
    """How values of ``source``, stored like this, are written into the target's column.

    ``mariadb`` is the target's family.
    """
    op = stored.op
    if op <= L.OP_UINT64:
        return LiteralForm(S.FORM_INTEGER)
    if op in _PLAIN:
        return LiteralForm(S.FORM_PLAIN, room=160, factor=12)
    if op in _QUOTED:
        return LiteralForm(S.FORM_QUOTED, room=160, factor=12)
    if op == L.OP_DOUBLE:
        return LiteralForm(S.FORM_DOUBLE)
    if op == L.OP_FLOAT:
        return LiteralForm(S.FORM_FLOAT)
    if op == L.OP_ENUM:
        return _enum(source, target)
    if op == L.OP_SET:
        return _set(source, target)
    if op == L.OP_JSON:
        own = target.data_type == "json" and not mariadb
        return LiteralForm(S.FORM_JSON if own else S.FORM_JSON_TEXT, _UTF8_INTRODUCER, room=256)
    if op == L.OP_UTF8:
        return LiteralForm(S.FORM_UTF8, _UTF8_INTRODUCER, room=96)
    if op == L.OP_TEXT:
        return _text(source, stored, target)
    if op == L.OP_BINARY_PADDED:
        return LiteralForm(S.FORM_PADDED, width=stored.a, room=64 + 2 * stored.a)
    if source.data_type.endswith(("binary", "blob")) or source.data_type in ("char", "varchar"):
        return LiteralForm(S.FORM_ASCII, room=96)
    return LiteralForm(S.FORM_HEX, room=96)


def compared(
    source: Column, stored: Storage, target: Column, *, mariadb: bool
) -> tuple[str, LiteralForm]:
    """An expression and the form of the literal that equals it (``<=>``) for the same bytes only.

    A collation takes other letters and trailing spaces for equal, so texts are compared as bytes.
    """
    name = quoted(target.name)
    form = value_form(source, stored, target, mariadb=mariadb)
    if target.data_type == "json" and not mariadb:
        if stored.op == L.OP_JSON:
            as_text = LiteralForm(S.FORM_JSON_TEXT, _UTF8_INTRODUCER, room=256)
            return f"CAST(CAST({name} AS CHAR) AS BINARY)", as_text
        if stored.op in (L.OP_UTF8, L.OP_TEXT):
            return name, LiteralForm(S.FORM_JSON_CAST, _UTF8_INTRODUCER, _CAST, room=256)
        return name, form
    if stored.op == L.OP_ENUM and form.form == S.FORM_ENUM:
        return name, LiteralForm(S.FORM_ENUM, numbers=form.numbers)
    if form.form == S.FORM_SET:
        # As it is it counts as signed, and 64 members as -1.
        return f"CAST({name} AS UNSIGNED)", form
    if target.data_type == "vector":
        return f"CAST({name} AS BINARY)", form
    if target.data_type not in _TEXTS or form.form == S.FORM_ENUM:
        return name, form
    if form.form in (S.FORM_HEX, S.FORM_ASCII, S.FORM_PADDED) or _is_utf8(target):
        return f"CAST({name} AS BINARY)", form
    # The literal is UTF-8, the column is not.
    return f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)", form


def same_values(source: Column, target: Column) -> bool:
    """Whether two different values of ``source`` are never one value of the target's column."""
    ours, theirs = _text_charset(source), _text_charset(target)
    same_kind = source.data_type == target.data_type and source.unsigned == target.unsigned
    same_size = (source.scale or 0) == (target.scale or 0) and source.members == target.members
    return same_kind and same_size and ours == theirs


def _text_charset(column: Column) -> str | None:
    return "utf8mb3" if column.charset == "utf8" else column.charset


def _is_utf8(column: Column) -> bool:
    return column.charset is None or column.charset in _UTF8


def _text(source: Column, stored: Storage, target: Column) -> LiteralForm:
    charset = source.charset or ""
    if target.data_type in _TEXTS and target.charset == charset:
        introducer = f"_{charset} ".encode()
        keeps_ascii = bool(tables()[stored.a * ENTRY + 1]) and charset_code(charset) is not None
        form = S.FORM_ASCII if keeps_ascii else S.FORM_HEX
        return LiteralForm(form, introducer, room=96)
    return LiteralForm(S.FORM_CONVERTED, _UTF8_INTRODUCER, width=stored.a, room=128)


def _enum(source: Column, target: Column) -> LiteralForm:
    if target.data_type != "enum":
        return LiteralForm(S.FORM_ENUM_TEXT, literals=(b"''", *map(literal, source.members)))
    numbers: tuple[int, ...] = ()
    if source.members != target.members:
        places = {member: i for i, member in enumerate(target.members, 1)}
        numbers = (0, *(places.get(member, -1) for member in source.members))
    # In a strict mode the number 0 is refused; a text of zeros that is no member is not.
    taken = {normalize("NFKC", member).strip() for member in target.members}
    zeros = [f"'{'0' * n}'".ljust(7).encode() for n in range(1, 6) if "0" * n not in taken]
    return LiteralForm(S.FORM_ENUM, constant=zeros[0] if zeros else b"", numbers=numbers)


def _set(source: Column, target: Column) -> LiteralForm:
    if target.data_type != "set":
        return LiteralForm(
            S.FORM_SET_TEXT, constant=_CONCAT, literals=tuple(map(literal, source.members))
        )
    if source.members == target.members[: len(source.members)]:
        return LiteralForm(S.FORM_SET)
    places = {member: i for i, member in enumerate(target.members)}
    return LiteralForm(
        S.FORM_SET, numbers=tuple(places.get(member, -1) for member in source.members)
    )
