"""Commit TSOs out of events: each carrier by which a cluster's nodes have them in their binlogs.

An event group that commits a branch is given as a range of bytes: whole events, the last of which
ends the group. The transaction's id is in the xid, ``drds-<id, hex>@…``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, small
from cdc.kernels.crc import BYTES, CHECKSUM, HEADER, LENGTH_AT
from cdc.kernels.memory import load8, load16, load32, load64

I64 = types.int64
VECTOR = types.int64[::1]
MATRIX = types.int64[:, ::1]

# --- carriers ----------------------------------------------------------------------------------
SEQUENCE: Final = 1  # an event of PolarDB-X 5.7
GCN: Final = 2  # an event of PolarDB-X 8.0
QUERY_GCN: Final = 3  # a status variable of PolarDB-X 8.0
TIMESTAMP: Final = 4  # SET timestamp, pseudo_thread_id: header time and thread of XA COMMIT
COMMIT_LOG: Final = 5  # a row that another session wrote before; not in the group
MARIADB_GTID: Final = 6  # SET gtid_seq_no
ORIGINAL_TIMESTAMP: Final = 7  # SET original_commit_timestamp of MySQL

# --- results -----------------------------------------------------------------------------------
TSO: Final = 0  # 0: the commit has none
TXN: Final = 1  # -1: the xid is not a coordinator's
BRANCHES: Final = 2  # 0: not said
RESULT_SIZE: Final = 3

DONE: Final = -1

_QUERY, _XID, _GTID, _XA_PREPARE, _SEQUENCE, _GCN, _MARIADB_GTID = 2, 16, 33, 38, 80, 105, 162
_COMMIT_SEQUENCE = 2
_GCN_COMMITTED, _GCN_EXTERNAL, _GCN_BRANCHES = 1, 4, 0x20
_Q_COMMIT_GCN, _Q_PREPARE_GCN = 200, 201
_ORIGINAL = 1 << 55
_MARK = 1 << 31
# An original_commit_timestamp has 55 bits: milliseconds, and what is left of the counter.
_ORIGINAL_SHIFT = 8


@small
def _hex(c):  # type: ignore[no-untyped-def]
    if 48 <= c <= 57:
        return c - 48
    c |= 32
    return c - 87 if 97 <= c <= 102 else -1


@small
def _letter(buf, at, hi):  # type: ignore[no-untyped-def]
    # Of the gtrid, which the servers write as hexadecimal digits.
    if at + 2 > hi:
        return -1
    a, b = _hex(load8(buf, at)), _hex(load8(buf, at + 1))
    return a << 4 | b if a >= 0 and b >= 0 else -1


@small
def _transaction(buf, at, hi):  # type: ignore[no-untyped-def]
    """Id in ``XA COMMIT X'<drds-…@…>'``, or -1."""
    # "XA COMMIT X'"
    if at + 12 > hi or load64(buf, at) != 0x494D4D4F43204158 or load32(buf, at + 8) != 0x27582054:
        return -1
    at += 12
    # "drds-"
    for c in (100, 114, 100, 115, 45):
        if _letter(buf, at, hi) != c:
            return -1
        at += 2
    value, digits = np.int64(0), 0
    while True:
        c = _letter(buf, at, hi)
        at += 2
        if c == 64 and digits > 0:
            return value
        digit = _hex(c) if c >= 0 else -1
        digits += 1
        if digit < 0 or digits > 16 or value >> 59:
            return -1
        value = value << 4 | digit


@small
def _status_end(buf, code, at, hi):  # type: ignore[no-untyped-def]
    """Behind the value of a status variable that begins at ``at``, or -1 for one not known."""
    if code in (0, 3, 10):
        return at + 4
    if code in (1, 9, 17, 129, 200, 201):
        return at + 8
    if code in (2, 5, 6):
        return at + 1 + load8(buf, at) + (1 if code == 2 else 0) if at < hi else -1
    if code == 4:
        return at + 6
    if code in (7, 8, 18):
        return at + 2
    if code in (13, 128):
        return at + 3
    if code in (16, 19, 20):
        return at + 1
    if code == 11:
        for _ in range(2):
            if at >= hi:
                return -1
            at += 1 + load8(buf, at)
        return at
    if code == 12:
        if at >= hi:
            return -1
        count = load8(buf, at)
        at += 1
        if count == 254:
            return at
        while count > 0 and at < hi:
            count -= load8(buf, at) == 0
            at += 1
        return at
    if code == 130:
        return at + (9 if at < hi and load8(buf, at) & 12 else 1)
    if code == 131:
        return at + 1 + 4 * load8(buf, at) if at < hi else -1
    return -1


@small
def _commit_gcn(buf, at, hi):  # type: ignore[no-untyped-def]
    while 0 <= at < hi:
        code = load8(buf, at)
        at += 1
        if code == _Q_COMMIT_GCN and at + 8 <= hi:
            return load64(buf, at)
        at = _status_end(buf, code, at, hi)
    return np.int64(0)


@kernel(I64(BYTES, VECTOR, VECTOR, I64, MATRIX))
def commits(buf, begins, ends, carrier, out):  # type: ignore[no-untyped-def]
    """Fill a row of ``out`` for each ``buf[begins[i]:ends[i]]``; DONE, or which group is malformed.

    What comes before the group in its range (whole events of groups before it) is passed over.
    """
    for i in range(begins.size):
        at, hi = begins[i], ends[i]
        if at < 0 or hi > buf.size or hi < at:
            return i
        tso, txn, branches = np.int64(0), np.int64(-1), np.int64(0)
        found, said = np.int64(0), np.int64(0)
        while at < hi:
            if at + HEADER + CHECKSUM > hi:
                return i
            kind, length = load8(buf, at + 4), load32(buf, at + LENGTH_AT)
            if length < HEADER + CHECKSUM or at + length > hi:
                return i
            body, end = at + HEADER, at + length - CHECKSUM
            size = end - body
            if kind == _SEQUENCE and carrier == SEQUENCE and size >= 9:
                if load8(buf, body) == _COMMIT_SEQUENCE:
                    found = load64(buf, body + 1)
            elif kind == _GCN and carrier == GCN and size >= 1:
                flags = load8(buf, body)
                p = body + 1
                if flags & _GCN_COMMITTED and p + 8 <= end:
                    if flags & _GCN_EXTERNAL:
                        found = load64(buf, p)
                    p += 8
                if flags & _GCN_BRANCHES and p + 2 <= end:
                    said = load16(buf, p)
            elif kind == _MARIADB_GTID and carrier == MARIADB_GTID and size >= 8:
                found = load64(buf, body)
            elif kind == _GTID and carrier == ORIGINAL_TIMESTAMP and size >= 56:
                # flags, source, number, type of what follows, two numbers; then 7 bytes each
                if load64(buf, body + 42) & _ORIGINAL:
                    found = (load64(buf, body + 49) & (_ORIGINAL - 1)) << _ORIGINAL_SHIFT
            elif kind == _QUERY:
                if size < 13:
                    return i
                status = body + 13
                schema = status + load16(buf, body + 11)
                text = schema + load8(buf, body + 8) + 1
                if text > end:
                    return i
                if carrier == QUERY_GCN:
                    found = _commit_gcn(buf, status, schema)
                elif carrier == TIMESTAMP:
                    # Milliseconds and half of a counter; a thread of the server has not that bit.
                    low = load32(buf, body)
                    found = np.int64(0)
                    if low & _MARK:
                        ms = load32(buf, at) * 1000 + ((low >> 21) & 0x3FF)
                        found = ms << 22 | (low & 0x1FFFFF) << 1
                txn = _transaction(buf, text, end)
            at += length
            if kind in (_QUERY, _XID, _XA_PREPARE):
                tso = found if txn >= 0 and kind == _QUERY else np.int64(0)
                branches = said if tso > 0 else np.int64(0)
                if at < hi:
                    txn = np.int64(-1)
                found, said = np.int64(0), np.int64(0)
        out[i, TSO] = tso
        out[i, TXN] = txn
        out[i, BRANCHES] = branches
    return DONE


@kernel(I64(BYTES, VECTOR, VECTOR, MATRIX))
def commit_log_rows(buf, begins, ends, out):  # type: ignore[no-untyped-def]
    """Rows (transaction, TSO, branches) that were inserted; how many, or -1 - i: a bad range i.

    Ranges hold rows events of a table of exactly ``BIGINT, BIGINT, INT``, none of them nullable,
    and TABLE_MAPs; what is not an insert is passed over. ``out`` takes as many rows as it has.
    """
    count = 0
    for i in range(begins.size):
        at, hi = begins[i], ends[i]
        if at < 0 or hi > buf.size or hi < at:
            return -1 - i
        while at < hi:
            if at + HEADER + CHECKSUM > hi:
                return -1 - i
            kind, length = load8(buf, at + 4), load32(buf, at + LENGTH_AT)
            if length < HEADER + CHECKSUM or at + length > hi:
                return -1 - i
            p, end = at + HEADER + 8, at + length - CHECKSUM
            if kind in (23, 30):
                if kind == 30:
                    p += load16(buf, p) if p + 2 <= end else 2
                # number of columns, which are present
                if p + 2 > end or load8(buf, p) != 3 or load8(buf, p + 1) & 7 != 7:
                    return -1 - i
                p += 2
                while p < end:
                    if p + 21 > end or load8(buf, p) & 7 or count >= out.shape[0]:
                        return -1 - i
                    out[count, TXN] = load64(buf, p + 1)
                    out[count, TSO] = load64(buf, p + 9)
                    out[count, BRANCHES] = load32(buf, p + 17)
                    count += 1
                    p += 21
            at += length
    return count
