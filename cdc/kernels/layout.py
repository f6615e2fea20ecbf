"""Columns of the integer matrices that kernels share: plans of tables, runs and references.

All matrices are C-contiguous int64. A plan set (``cdc.rows.plan``) holds ``tables`` (one row a
table), ``columns`` (one row a column of the TABLE_MAP, tables one after the other) and ``hops``.
Formats have matrices of their own beside them (``canal_layout``, ``sql_layout``).
"""

from __future__ import annotations

from typing import Final

# --- tables ------------------------------------------------------------------------------------
T_COLUMN: Final = 0  # first row in columns
T_COLUMNS: Final = 1  # number of columns
T_HOP: Final = 2  # first row in hops
T_HOPS: Final = 3
T_MODE: Final = 4  # MODE_*
T_PARTITIONS: Final = 5
T_BASE: Final = 6  # number of the first destination of its topic
T_PARTITION: Final = 7  # MODE_CONSTANT: the partition
T_HASH: Final = 8  # MODE_COLUMNS: hash of schema and table
T_OPTIONS: Final = 9  # OPTION_*
T_BLOCK: Final = 10  # MODE_COLUMNS: bits of an integer key below its block, 0: the hash of values
T_SIZE: Final = 11

MODE_CONSTANT: Final = 0
MODE_TS: Final = 1
MODE_COLUMNS: Final = 2

OPTION_DELETE_KEYS: Final = 1  # DELETE holds handle-key columns only
OPTION_SPLIT: Final = 2  # an UPDATE that changes the key becomes DELETE and INSERT

# --- columns -----------------------------------------------------------------------------------
C_WIDTH: Final = 0  # bytes of the value, or minus the bytes of its length prefix
C_OP: Final = 1  # OP_*: how it becomes text
C_A: Final = 2  # parameters of the op
C_B: Final = 3
C_FLAGS: Final = 4  # COLUMN_*
C_HASH: Final = 5  # crc32 of the name, if it takes part in dispatch
C_ROOM: Final = 6  # bytes of text beside 12 for each stored byte
C_SIZE: Final = 7

COLUMN_HIDDEN: Final = 1  # never written (virtual generated, not selected)
COLUMN_HANDLE: Final = 2
COLUMN_DISPATCH: Final = 4
COLUMN_NUMBER_HASH: Final = 8  # dispatch hashes its text; else its bytes

OP_INT8: Final = 0
OP_UINT8: Final = 1
OP_INT16: Final = 2
OP_UINT16: Final = 3
OP_INT24: Final = 4
OP_UINT24: Final = 5
OP_INT32: Final = 6
OP_UINT32: Final = 7
OP_INT64: Final = 8
OP_UINT64: Final = 9
OP_DOUBLE: Final = 10
OP_FLOAT: Final = 11
OP_DECIMAL: Final = 12  # A precision, B scale
OP_UTF8: Final = 13
OP_DATETIME2: Final = 14  # A fraction digits
OP_TIMESTAMP2: Final = 15  # A fraction digits
OP_RARE: Final = 16  # ops from here on are dispatched out of line
OP_DATE: Final = 16
OP_TIME2: Final = 17
OP_YEAR: Final = 18
OP_BIT: Final = 19
OP_TEXT: Final = 20  # A charset code
OP_BINARY: Final = 21
OP_BINARY_PADDED: Final = 22  # A the column's length
OP_ENUM: Final = 23
OP_SET: Final = 24
OP_JSON: Final = 25
OP_UUID: Final = 26
OP_INET4: Final = 27
OP_INET6: Final = 28
OP_VECTOR: Final = 29
OP_OLD_TIME: Final = 30
OP_OLD_DATETIME: Final = 31
OP_OLD_TIMESTAMP: Final = 32
OP_MARIA_TIME: Final = 33  # A fraction digits
OP_MARIA_DATETIME: Final = 34
OP_MARIA_TIMESTAMP: Final = 35
OP_NULL: Final = 36

# --- hops: how to step over a full image without NULLs ------------------------------------------
H_FIXED: Final = 0  # bytes of fixed columns
H_PREFIX: Final = 1  # bytes of the length prefix that follows them, or 0
H_SIZE: Final = 2

# --- runs --------------------------------------------------------------------------------------
RUN_OFFSET: Final = 0
RUN_LENGTH: Final = 1
RUN_PLAN: Final = 2  # row in tables
RUN_TS: Final = 3  # commit ts
RUN_FIRST_ROW: Final = 4  # rows of the transaction before this run
RUN_SKIP: Final = 5  # rows to pass over at its start
RUN_TAKE: Final = 6  # most rows to take after them
RUN_SIZE: Final = 7

# --- references, one a row ------------------------------------------------------------------------
R_BEFORE: Final = 0  # offset of the before image (its NULL bitmap), or -1
R_AFTER: Final = 1  # offset of the after image, or -1
R_END: Final = 2  # end of the row
R_KIND: Final = 3  # KIND_*, plus PARTIAL if an image lacks columns
R_PLAN: Final = 4
R_TS: Final = 5
R_ROW: Final = 6  # number of the row in its transaction
R_DESTINATION: Final = 7  # T_BASE + partition
R_BITMAP: Final = 8  # offset of the bitmap of columns present in the before (or only) image
R_BITMAP_AFTER: Final = 9
R_SIZE: Final = 10

KIND_INSERT: Final = 0
KIND_UPDATE: Final = 1
KIND_DELETE: Final = 2
KIND_MASK: Final = 3
PARTIAL: Final = 4

# --- errors of locate, destinations and encode ------------------------------------------------
OK: Final = 0
ERR_EVENT: Final = 101  # an event's header or length is impossible
ERR_IMAGE: Final = 102  # a row image does not fit into its event
ERR_COLUMNS: Final = 103  # number of columns differs from the plan's
ERR_NOT_FULL: Final = 104  # columns that are needed are absent
ERR_REFERENCES: Final = 105  # more rows than references have room for
ERR_PARTIAL_JSON: Final = 106  # PARTIAL_UPDATE_ROWS event
ERR_COMPRESSED: Final = 107  # compressed rows event: the log holds plain ones
ERR_RUN: Final = 108  # a run lies outside of the buffer, or its plan does not exist
ERR_TOO_LARGE: Final = 109  # a message is over the limit
ERR_ROOM: Final = 110  # the output is too small for a single row

MESSAGES: Final[dict[int, str]] = {
    ERR_EVENT: "an event's length is impossible",
    ERR_IMAGE: "a row image does not fit into its event",
    ERR_COLUMNS: "the event has another number of columns than its table",
    ERR_NOT_FULL: "the row image lacks columns",
    ERR_REFERENCES: "the run holds more rows than its index says",
    ERR_PARTIAL_JSON: "partial update rows events are not supported",
    ERR_COMPRESSED: "a compressed rows event in the log",
    ERR_RUN: "a run lies outside of its segment",
    ERR_TOO_LARGE: "the message is larger than the limit",
    ERR_ROOM: "the output buffer is too small for one row",
}
