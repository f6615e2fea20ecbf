"""Columns of Maxwell's own matrices: a head for each table, a form for each column.

Rows of ``heads`` go with those of ``tables`` in ``layout``, rows of ``forms`` with those of
``columns``; parts of keys and members of types are in ``json_layout``. Constants lie in ``blob``
(uint8, 64 bytes of padding at its end). All matrices are C-contiguous int64.
"""

from __future__ import annotations

from typing import Final

# --- heads: pairs of blob offset and length, and what goes with them ----------------------------
H_HEAD: Final = 0  # INSERT, UPDATE, DELETE: up to the value of "ts"
H_DATA: Final = 6  # from "data" up to the first column, with what all rows of the table have
H_KEY_HEAD: Final = 8  # up to the first part's name
H_KEY: Final = 10  # first row in keys
H_KEYS: Final = 11  # number of parts; 0: records have null keys
H_BOUND: Final = 12  # most bytes that a row takes beside 20 x image length
H_OPTIONS: Final = 13  # OPTION_*
H_SIZE: Final = 14

OPTION_XID: Final = 1  # rows have a transaction; those of a snapshot have none
OPTION_GIVEN: Final = 2  # before a row's columns stand some that all rows of its table have

# --- forms -------------------------------------------------------------------------------------
N_NAME: Final = 0  # blob offset of ``,"name":``
N_NAME_LENGTH: Final = 1
N_FORM: Final = 2  # FORM_*
N_MEMBER: Final = 3  # first row in members
N_MEMBERS: Final = 4
N_SIZE: Final = 5

FORM_NUMBER: Final = 0  # the text of ``cell``, bare
FORM_TEXT: Final = 1  # the same in quotes
FORM_RARE: Final = 2  # forms from here on are dispatched out of line
FORM_BYTES: Final = 2  # base64
FORM_PADDED: Final = 3  # BINARY(n): the same, with its zeros
FORM_ENUM: Final = 4
FORM_SET: Final = 5  # an array of texts
FORM_JSON: Final = 6  # the document itself
FORM_FLOAT: Final = 7
FORM_DOUBLE: Final = 8
FORM_YEAR: Final = 9
