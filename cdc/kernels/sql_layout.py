"""Columns of the matrices that the SQL text kernels share: statements and their items.

A table has ``S_COUNT`` rows in ``forms``, one for each statement that its rows can become; row
``plan * S_COUNT + S_*``. A statement is a head, for each row the literals of its value items and
of its where items, what stands between rows, and a tail; all constants lie in ``blob`` (uint8, 64
bytes of padding at its end). All matrices are C-contiguous int64.
"""

from __future__ import annotations

from typing import Final

from cdc.kernels import layout as L  # noqa: N812

S_INSERT: Final = 0  # INSERT, or what repeats one safely
S_UPSERT: Final = 1  # an UPDATE written as INSERT … ON DUPLICATE KEY UPDATE
S_UPDATE: Final = 2
S_DELETE: Final = 3
S_COUNT: Final = 4

F_HEAD: Final = 0  # blob offset and length of the head
F_HEAD_LENGTH: Final = 1
F_FREE: Final = 2  # the head of a statement that does not check foreign keys
F_FREE_LENGTH: Final = 3
F_BETWEEN: Final = 4  # what separates rows
F_BETWEEN_LENGTH: Final = 5
F_TAIL: Final = 6
F_TAIL_LENGTH: Final = 7
F_VALUES: Final = 8  # first item written from the new image, and how many
F_VALUES_COUNT: Final = 9
F_WHERE: Final = 10  # first item written from the old image, and how many
F_WHERE_COUNT: Final = 11
F_ROWS: Final = 12  # most rows of one statement
F_MATCHED: Final = 13  # rows that the server reports for each row; -1 if that is not known
F_WAY: Final = 14  # of S_UPDATE: WAY_*
F_SIZE: Final = 15

WAY_UPDATE: Final = 0
WAY_UPSERT: Final = 1  # S_UPSERT, unless the key changes or nothing that is written changes
WAY_REPLACE: Final = 2  # S_INSERT, after a S_DELETE where the key changes

I_ORDINAL: Final = 0  # of the column in its table
I_COLUMN: Final = 1  # row in columns
I_FORM: Final = 2  # FORM_*
I_PREFIX: Final = 3  # blob offset and length of what stands before the literal
I_PREFIX_LENGTH: Final = 4
I_A: Final = 5  # parameters of the form
I_B: Final = 6
I_C: Final = 7
I_ALWAYS: Final = 8  # written by UPDATE although it did not change
I_ROOM: Final = 9  # most bytes of its literal: I_ROOM + I_FACTOR * stored bytes
I_FACTOR: Final = 10
I_SIZE: Final = 11

FORM_INTEGER: Final = 0
FORM_UTF8: Final = 1  # quoted, or A, B (an introducer in blob) and hex
FORM_PLAIN: Final = 2  # a number as the value kernels write it
FORM_QUOTED: Final = 3  # their text in quotes: dates, times, addresses
FORM_DOUBLE: Final = 4
FORM_FLOAT: Final = 5
FORM_ASCII: Final = 6  # quoted where all is ASCII, else A, B and hex
FORM_HEX: Final = 7  # A, B and hex
FORM_PADDED: Final = 8  # hex with 0x00 up to C bytes
FORM_CONVERTED: Final = 9  # text of charset C as UTF-8, then as FORM_UTF8
FORM_ENUM: Final = 10  # number; A: first of B numbers at the target, or -1; C: blob offset of
# seven bytes, the text that a strict mode takes for 0, or -1
FORM_SET: Final = 11  # number; A: first of B bit numbers at the target, or -1
FORM_ENUM_TEXT: Final = 12  # A: first of B (blob offset, length) pairs of members' literals
FORM_SET_TEXT: Final = 13  # the same; C: blob offset of ``CONCAT_WS(','``
FORM_JSON: Final = (
    14  # MySQL's, for a JSON column: text, or an expression that makes the same value
)
FORM_JSON_TEXT: Final = 15  # as text
FORM_JSON_CAST: Final = 16  # to be compared with a JSON column; C: offset of ``CAST( AS JSON)``

ERR_OPAQUE: Final = 121
ERR_MEMBER: Final = 122
ERR_SCRATCH: Final = 123

MESSAGES: Final[dict[int, str]] = {
    **L.MESSAGES,
    ERR_OPAQUE: "a JSON document holds an opaque value of a type that no SQL expression makes",
    ERR_MEMBER: "the value has a member that the target's column does not have",
}
