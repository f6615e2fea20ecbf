"""Columns of Debezium's own matrices: a head for each table, a form for each column.

Rows of ``heads`` go with those of ``tables`` in ``layout``, rows of ``forms`` with those of
``columns``; parts of keys and members of types are in ``json_layout``. Constants lie in ``blob``
(uint8, 64 bytes of padding at its end). All matrices are C-contiguous int64.
"""

from __future__ import annotations

from typing import Final

# --- heads: pairs of blob offset and length, and what goes with them ----------------------------
H_HEAD: Final = 0  # up to the value of "before"
H_NAME: Final = 2  # from "source" up to its ts_ms
H_DB: Final = 4  # up to ts_us of the source
H_TABLE: Final = 6  # behind ts_ns of the source, up to its server_id
H_ROW: Final = 8  # behind its row, up to commit_ts
H_OP: Final = 10  # INSERT, UPDATE, DELETE: up to the message's ts_ms
H_TAIL: Final = 16  # behind the message's ts_ns
H_KEY_HEAD: Final = 18  # up to the first part's name
H_KEY_TAIL: Final = 20
H_KEY: Final = 22  # first row in keys
H_KEYS: Final = 23  # number of parts; 0: records have null keys
H_BOUND: Final = 24  # most bytes that a row takes beside 20 x image length
H_OPTIONS: Final = 25  # OPTION_*
H_ROW_HEAD: Final = 26  # the begin of a row, with what all rows of the table have
H_SIZE: Final = 28

OPTION_NO_OLD: Final = 1  # an UPDATE has no row in "before"
OPTION_GIVEN: Final = 2  # before a row's columns stand some that all rows of its table have

# --- forms -------------------------------------------------------------------------------------
N_NAME: Final = 0  # blob offset of ``,"name":``
N_NAME_LENGTH: Final = 1
N_FORM: Final = 2  # FORM_*
N_OPTIONAL: Final = 3  # a date that no calendar has becomes null; else 0
N_MEMBER: Final = 4  # first row in members
N_MEMBERS: Final = 5
N_SIZE: Final = 6

FORM_INTEGER: Final = 0  # also BIGINT UNSIGNED beyond the signed range, as its bits
FORM_UTF8: Final = 1
FORM_DATETIME: Final = 2  # milliseconds up to 3 digits of fraction, else microseconds
FORM_DECIMAL: Final = 3  # base64 of the unscaled number, big-endian two's complement
FORM_DOUBLE: Final = 4
FORM_TIMESTAMP: Final = 5  # ISO 8601 in UTC
FORM_RARE: Final = 6  # forms from here on are dispatched out of line
FORM_FLOAT: Final = 6
FORM_WIDE_FLOAT: Final = 7  # FLOAT(M,D): the float's value as a double
FORM_DATE: Final = 8  # days
FORM_TIME: Final = 9  # microseconds
FORM_YEAR: Final = 10
FORM_BOOLEAN: Final = 11  # BIT(1)
FORM_BITS: Final = 12  # base64, little-endian
FORM_TEXT: Final = 13  # of any character set
FORM_BYTES: Final = 14  # base64
FORM_PADDED: Final = 15  # BINARY(n): the same, with its zeros
FORM_ENUM: Final = 16
FORM_SET: Final = 17
FORM_JSON: Final = 18

# --- names: what the upstream calls transactions, rising by ts -----------------------------------
# Texts lie in a blob of their own, as they stand inside of a JSON string.
U_TS: Final = 0
U_SOURCE: Final = 1  # blob offset of the GTID up to its number
U_SOURCE_LENGTH: Final = 2  # 0: no GTID
U_SEQUENCE: Final = 3
U_BINLOG: Final = 4  # blob offset of the binlog file's name up to its number
U_BINLOG_LENGTH: Final = 5  # 0: its name is not known
U_FILE: Final = 6
U_SIZE: Final = 7
