"""Columns of canal-json's own matrices: a head for each table, a name for each column.

Rows of ``heads`` go with those of ``tables`` in ``layout``, rows of ``names`` with those of
``columns``; constants lie in ``blob`` (uint8, 64 bytes of padding at its end). Both matrices are
C-contiguous int64.
"""

from __future__ import annotations

from typing import Final

H_HEAD: Final = 0  # blob offset of the head of INSERT; UPDATE and DELETE follow in the next two
H_HEAD_LENGTH: Final = 3  # three lengths
H_ES: Final = 6  # offset in each head of the 13 digits of es
H_BETWEEN: Final = 7  # blob offset of what separates old from data
H_BETWEEN_LENGTH: Final = 8
H_TAIL: Final = 9  # blob offset of what follows data, up to the commit ts if there is one
H_TAIL_LENGTH: Final = 10
H_BOUND: Final = 11  # most bytes that a message takes beside 12 x image length
H_OPTIONS: Final = 12  # OPTION_*
H_KEY: Final = 13  # blob offset of the begin of a record's key
H_KEY_LENGTH: Final = 14
H_SIZE: Final = 15

OPTION_COMMIT_TS: Final = 1  # a commit ts follows the tail, then "}}"
OPTION_OLD_CHANGED: Final = 2  # old holds changed columns only
OPTION_RECORD_KEY: Final = 4  # records have the handle key as their key
OPTION_GIVEN: Final = 8  # before a row's columns stand some that all rows of its table have

N_NAME: Final = 0  # blob offset of ``,"name":"``
N_NAME_LENGTH: Final = 1
N_HOLE: Final = 2  # offset in the heads of INSERT and UPDATE of the sqlType code, or -1
N_HOLE_DELETE: Final = 3  # the same for DELETE
N_CODE: Final = 4  # blob offset of the code's text for a value that is too large for its Java type
N_CODE_LENGTH: Final = 5  # 0: there is but one code
N_CODE_USUAL: Final = 6  # length of the usual code's text
N_SIZE: Final = 7

# Marks of a cluster's transactions
K_TS: Final = 0
K_TSO: Final = 1
K_TRANSACTION: Final = 2
K_SEQUENCE: Final = 3
K_NODE: Final = 4
K_BRANCHES: Final = 5
K_SIZE: Final = 6
