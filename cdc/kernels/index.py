"""Walking whole events of a replication stream: CRC, transactions, tables and runs in one pass.

What is rare (DDL, rotation, compression, unknown tables ...) is left to the caller: the walk
returns at the event, and goes on where it is told to. All state lies in int64 arrays, so that
nothing is made per event or transaction. The steps of XA transactions become rows of the index with
the number of their xid; the rows that a commit makes valid are put before it by the caller.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit, types

from cdc.kernels import xids as X  # noqa: N812
from cdc.kernels.compile import kernel
from cdc.kernels.crc import BYTES, CHECKSUM, HEADER, LENGTH_AT, crc32
from cdc.kernels.memory import load8, load16, load32, load64
from cdc.kernels.rows import image_end, packed_integer

I64 = types.int64
VECTOR = types.int64[::1]
MATRIX = types.int64[:, ::1]

# --- state -------------------------------------------------------------------------------------
IN: Final = 0  # 1 inside of an event group
TS: Final = 1  # its commit ts
LAST: Final = 2  # largest ts that was assigned or published as resolved
ROWS: Final = 3  # rows of the group so far
SOURCE: Final = 4  # id of its GTID source, or -1
SEQUENCE: Final = 5
POS: Final = 6  # upstream offset behind the last event, 64 bits
FILE: Final = 7  # number of the upstream's file
KIND: Final = 8  # kind that runs get (DML or PREPARE)
XID: Final = 9
BEGUN: Final = 10  # 1 if the group ends with XID, COMMIT or ROLLBACK, 0 if with its one statement
RUN_TABLE: Final = 11  # table of the open run, or -1
RUN_AT: Final = 12
RUN_END: Final = 13
RUN_ROWS: Final = 14
RUN_FIRST: Final = 15
RUN_POS: Final = 16
RUNS: Final = 17  # rows written to runs
TXNS: Final = 18  # rows written to transactions
MAPS: Final = 19  # live table maps
FLAGGED: Final = 20  # 1 once the group's last run is marked
BOUNDARY: Final = 21  # offset behind the last event that ended a group in this call, or -1
BOUNDARY_RUNS: Final = 22
BOUNDARY_TXNS: Final = 23
BOUNDARY_TS: Final = 24
BOUNDARY_POS: Final = 25
ADDED: Final = 26  # bytes by which our copy of an event is longer than the upstream's
LAST_TABLE: Final = 27  # table of the group's last rows event
SEEN: Final = 28  # events walked
CUT: Final = 29  # 1 once a part of the group was rolled back; its end is then for the caller
LATEST: Final = 30  # a later time of an event is not believed
AHEAD: Final = 31  # the largest ts of an event that was later, 0 if none was
PIN_SOURCE: Final = 32  # the transaction that is to get PIN_TS: its GTID source, or -1
PIN_SEQUENCE: Final = 33  # its number, or without a GTID where it begins in the upstream's file
PIN_FILE: Final = 34
PIN_TS: Final = 35  # 0: none; negative: it has come and got this (negated), tell what is next
STATE_SIZE: Final = 36

# --- columns -----------------------------------------------------------------------------------
# tables: the first four as cdc.kernels.rows reads them
T_HASH: Final = 4
T_BODY: Final = 5
T_BODY_LENGTH: Final = 6
T_SIZE: Final = 7
# live table maps: id in the stream, our id, offset of the event (negative: from an earlier call)
M_NUMBER: Final = 0
M_TABLE: Final = 1
M_AT: Final = 2
M_LENGTH: Final = 3
M_SIZE: Final = 4
# runs
R_TS: Final = 0
R_KIND: Final = 1
R_FLAGS: Final = 2
R_TABLE: Final = 3
R_OFFSET: Final = 4
R_LENGTH: Final = 5
R_FIRST_ROW: Final = 6
R_ROWS: Final = 7
R_SOURCE: Final = 8
R_SEQUENCE: Final = 9
R_FILE: Final = 10
R_POS: Final = 11
R_XID: Final = 12
R_SIZE: Final = 13

# --- results -----------------------------------------------------------------------------------
DONE: Final = 0
COLD: Final = 1  # the event at the offset is for the caller
NEW_TABLE: Final = 2  # the TABLE_MAP at the offset is not in the dictionary
NEW_SOURCE: Final = 3  # the GTID's source is not known
FULL: Final = 4  # runs, transactions, live maps or xids have no room
PINNED: Final = 5  # a group begins behind the transaction that was pinned
BAD_LENGTH: Final = -1
BAD_CHECKSUM: Final = -2
BAD_ROWS: Final = -3  # a rows event without its TABLE_MAP, or with other columns
BAD_IMAGE: Final = -4
BAD_GROUP: Final = -5  # an event outside of a group, or a group inside of another

DML: Final = 1
PREPARE: Final = 5
COMMIT: Final = 6
ROLLBACK: Final = 7
RUN_BYTES: Final = 1 << 20
_STATEMENT_END = 1
_DUMMY_TABLE = 0xFFFFFF
_PREPARED_XA = 64
_COMPLETED_XA = 128
_GROUP_COMMIT = 2
_STANDALONE = 1
_MIX = -7046029254386353131  # 2**64 / golden ratio, as int64


@kernel(I64(BYTES, I64, I64), counted=True)
def hash_bytes(buf, lo, hi):  # type: ignore[no-untyped-def]
    """Hash of ``buf[lo:hi]`` (clamped to the array), words mixed by multiplication."""
    lo = max(lo, 0)
    hi = min(hi, buf.size)
    h = np.int64(hi - lo)
    p = lo
    while p + 8 <= hi:
        h = (h ^ load64(buf, p)) * np.int64(_MIX)
        h ^= np.int64(np.uint64(h) >> np.uint64(29))
        p += 8
    while p < hi:
        h = (h ^ load8(buf, p)) * np.int64(_MIX)
        h ^= np.int64(np.uint64(h) >> np.uint64(29))
        p += 1
    return h


@njit(nogil=True)
def _same(a, i, b, j, n):  # type: ignore[no-untyped-def]
    k = 0
    while k + 8 <= n:
        if load64(a, i + k) != load64(b, j + k):
            return False
        k += 8
    while k < n:
        if load8(a, i + k) != load8(b, j + k):
            return False
        k += 1
    return True


@njit(nogil=True)
def _find_table(buf, lo, hi, slots, tables, bodies):  # type: ignore[no-untyped-def]
    # Open addressing; slots hold id + 1 and are a power of two with free places among them.
    mask = slots.size - 1
    h = hash_bytes(buf, lo, hi)
    i = h & mask
    for _ in range(slots.size):
        table = slots[i] - 1
        if table < 0 or table >= tables.shape[0]:
            return np.int64(-1)
        n = tables[table, T_BODY_LENGTH]
        if (
            tables[table, T_HASH] == h
            and n == hi - lo
            and tables[table, T_BODY] + n <= bodies.size
            and _same(buf, lo, bodies, tables[table, T_BODY], n)
        ):
            return np.int64(table)
        i = (i + 1) & mask
    return np.int64(-1)


@njit(nogil=True)
def _close_run(state, runs, flags):  # type: ignore[no-untyped-def]
    n = state[RUNS]
    runs[n, R_TS] = state[TS] if state[KIND] == DML else 0
    runs[n, R_KIND] = state[KIND]
    runs[n, R_FLAGS] = flags
    runs[n, R_TABLE] = state[RUN_TABLE]
    runs[n, R_OFFSET] = state[RUN_AT]
    runs[n, R_LENGTH] = state[RUN_END] - state[RUN_AT]
    runs[n, R_FIRST_ROW] = state[RUN_FIRST]
    runs[n, R_ROWS] = state[RUN_ROWS]
    runs[n, R_SOURCE] = state[SOURCE]
    runs[n, R_SEQUENCE] = state[SEQUENCE]
    runs[n, R_FILE] = state[FILE]
    runs[n, R_POS] = state[RUN_POS]
    runs[n, R_XID] = state[XID]
    state[RUNS] = n + 1
    state[RUN_TABLE] = -1


@njit(nogil=True)
def _open_run(state, table, at, pos):  # type: ignore[no-untyped-def]
    state[RUN_TABLE] = table
    state[RUN_AT] = at
    state[RUN_END] = at
    state[RUN_ROWS] = 0
    state[RUN_FIRST] = state[ROWS]
    state[RUN_POS] = pos


@njit(nogil=True)
def _finish(state, runs, transactions, end):  # type: ignore[no-untyped-def]
    # The group ends at ``end``; its last run is marked, by an empty one if it was given away.
    if state[RUN_TABLE] >= 0:
        _close_run(state, runs, 1)
    elif state[ROWS] > 0 and state[KIND] == DML:
        _open_run(state, state[LAST_TABLE], end, state[POS])
        _close_run(state, runs, 1)
    _end_group(state, transactions, end)


@njit(nogil=True)
def _step(state, runs, transactions, kind, number, at, end, pos):  # type: ignore[no-untyped-def]
    # The group ends with a step of an XA transaction, which is the event from ``at`` to ``end``.
    if state[RUN_TABLE] >= 0:
        _close_run(state, runs, 0)
    n = state[RUNS]
    runs[n, R_TS] = 0 if kind == PREPARE else state[TS]
    runs[n, R_KIND] = kind
    runs[n, R_FLAGS] = 1
    runs[n, R_TABLE] = -1
    runs[n, R_OFFSET] = at
    runs[n, R_LENGTH] = end - at
    runs[n, R_FIRST_ROW] = 0
    runs[n, R_ROWS] = 0
    runs[n, R_SOURCE] = state[SOURCE]
    runs[n, R_SEQUENCE] = state[SEQUENCE]
    runs[n, R_FILE] = state[FILE]
    runs[n, R_POS] = pos
    runs[n, R_XID] = number
    state[RUNS] = n + 1
    _end_group(state, transactions, end)


@njit(nogil=True)
def _end_group(state, transactions, end):  # type: ignore[no-untyped-def]
    if state[SOURCE] >= 0:
        transactions[state[TXNS], 0] = state[SOURCE]
        transactions[state[TXNS], 1] = state[SEQUENCE]
        state[TXNS] += 1
    state[IN] = 0
    state[MAPS] = 0
    state[BOUNDARY] = end
    state[BOUNDARY_RUNS] = state[RUNS]
    state[BOUNDARY_TXNS] = state[TXNS]
    state[BOUNDARY_TS] = state[TS]
    state[BOUNDARY_POS] = state[POS]


@njit(nogil=True)
def _begin(state, ts, source, sequence, begun):  # type: ignore[no-untyped-def]
    state[IN] = 1
    pinned = (
        state[PIN_TS] > 0
        and source == state[PIN_SOURCE]
        and sequence == state[PIN_SEQUENCE]
        and (source >= 0 or state[FILE] == state[PIN_FILE])
    )
    if pinned:
        ts = state[PIN_TS]
    elif ts > state[LATEST]:
        # A wrong clock would move all later ts into the future for ever.
        state[AHEAD] = max(state[AHEAD], ts)
        ts = 0
    state[TS] = max(state[LAST] + 1, ts)
    state[LAST] = state[TS]
    if pinned:
        state[PIN_TS] = -state[TS]
    state[ROWS] = 0
    state[SOURCE] = source
    state[SEQUENCE] = sequence
    state[KIND] = DML
    state[XID] = -1
    state[BEGUN] = begun
    state[MAPS] = 0
    state[CUT] = 0


@njit(nogil=True)
def _prepare(state, number):  # type: ignore[no-untyped-def]
    # The group that has begun is an XA transaction's, and ends when that is prepared.
    state[KIND] = PREPARE
    state[XID] = number
    state[BEGUN] = 1


@njit(nogil=True)
def _find_source(sources, high, low):  # type: ignore[no-untyped-def]
    for i in range(sources.shape[0]):
        if sources[i, 2] < 0:
            break
        if sources[i, 0] == high and sources[i, 1] == low:
            return sources[i, 2]
    return np.int64(-1)


@njit(nogil=True)
def _seconds_ts(buf, i):  # type: ignore[no-untyped-def]
    return (load32(buf, i) * 1000) << 18


@njit(nogil=True)
def _gtid(  # type: ignore[no-untyped-def]
    buf, i, end, code, state, sources, heads, entries, contents, xids, scratch
):
    # DONE, COLD, NEW_SOURCE or an error; begins the group.
    p = i + HEADER
    if state[IN] != 0:
        return BAD_GROUP
    if state[PIN_TS] < 0:
        return PINNED
    if code == 162:
        if p + 13 > end:
            return BAD_LENGTH
        flags = load8(buf, p + 12)
        source = _find_source(sources, load32(buf, p + 8), load32(buf, i + 5))
        if source < 0:
            return NEW_SOURCE
        number = np.int64(-1)
        if flags & _PREPARED_XA:
            at = p + (21 if flags & _GROUP_COMMIT else 13)
            if not X.from_binary(buf, at, end, False, xids, scratch):
                return BAD_LENGTH
            number = X.put(heads, entries, contents, xids, scratch)
            if number < 0:
                return FULL
        _begin(state, _seconds_ts(buf, i), source, load64(buf, p), 1 - (flags & _STANDALONE))
        if number >= 0:
            _prepare(state, number)
        return DONE
    if p + 25 > end:
        return BAD_LENGTH
    ts = _seconds_ts(buf, i)
    if p + 49 <= end and load8(buf, p + 25) == 2:
        micros = load64(buf, p + 41) >> 8 & ((1 << 55) - 1)
        if micros > 0:
            ts = ((micros // 1000) << 18) | ((micros % 1000) << 8)
    if code == 34:
        _begin(state, ts, -1, state[POS], 0)
        return DONE
    source = _find_source(sources, load64(buf, p + 1), load64(buf, p + 9))
    if source < 0:
        return NEW_SOURCE
    _begin(state, ts, source, load64(buf, p + 17), 0)
    return DONE


@njit(nogil=True)
def _rows_event(buf, i, end, pos, code, state, maps, tables, columns, hops, runs):  # type: ignore[no-untyped-def]
    p = i + HEADER
    if state[IN] == 0:
        return BAD_GROUP
    if p + 8 > end:
        return BAD_LENGTH
    number = load32(buf, p) | load16(buf, p + 4) << 32
    flags = load16(buf, p + 6)
    if number == _DUMMY_TABLE:
        state[MAPS] = 0
        return DONE
    table = np.int64(-1)
    for k in range(state[MAPS] - 1, -1, -1):
        if maps[k, M_NUMBER] == number:
            table = maps[k, M_TABLE]
            break
    if table < 0 or table >= tables.shape[0]:
        return BAD_ROWS
    p += 8
    if code >= 30:
        if p + 2 > end or load16(buf, p) < 2:
            return BAD_LENGTH
        p += load16(buf, p)
    count, p = packed_integer(buf, p, end)
    if count < 0 or p > end:
        return BAD_LENGTH
    if count != tables[table, 1] or count == 0:
        return BAD_ROWS
    size = (count + 7) >> 3
    update = code == 24 or code == 31
    bitmap = p
    after = p + size if update else p
    p = after + size
    if p > end:
        return BAD_LENGTH
    full, full_after = True, True
    for k in range(count):
        full &= (load8(buf, bitmap + (k >> 3)) >> (k & 7)) & 1 == 1
        full_after &= (load8(buf, after + (k >> 3)) >> (k & 7)) & 1 == 1
    n = np.int64(0)
    while p < end:
        p = image_end(buf, p, end, bitmap, full, table, tables, columns, hops)
        if p >= 0 and update:
            p = image_end(buf, p, end, after, full_after, table, tables, columns, hops)
        if p < 0:
            return BAD_IMAGE
        n += 1
    if state[RUN_TABLE] >= 0 and (
        state[RUN_TABLE] != table or state[RUN_END] - state[RUN_AT] >= RUN_BYTES
    ):
        _close_run(state, runs, 0)
    if state[RUN_TABLE] < 0:
        _open_run(state, table, i, pos)
    state[RUN_END] = end + CHECKSUM
    state[RUN_ROWS] += n
    state[ROWS] += n
    state[LAST_TABLE] = table
    if flags & _STATEMENT_END:
        state[MAPS] = 0
    return DONE


@njit(nogil=True)
def _word(buf, p, end):  # type: ignore[no-untyped-def]
    # 1 BEGIN, 2 COMMIT, 3 SAVEPOINT, 4 ROLLBACK TO, 5 an XA statement maybe, 0 anything else.
    n = end - p
    if n == 5 and load32(buf, p) == 0x49474542 and load8(buf, p + 4) == 0x4E:
        return 1
    if n == 6 and load32(buf, p) == 0x4D4D4F43 and load16(buf, p + 4) == 0x5449:
        return 2
    if n > 12 and load64(buf, p) == 0x4B4341424C4C4F52 and load32(buf, p + 8) == 0x204F5420:
        return 4
    if n > 10 and load64(buf, p) == 0x4E494F5045564153 and load16(buf, p + 8) == 0x2054:
        return 3
    if n > 9 and load32(buf, p) & 0xFFFFFF == 0x204158:
        return 5
    return 0


@njit(nogil=True)
def _query_text(buf, i, end):  # type: ignore[no-untyped-def]
    # Where the text of a QUERY event begins, or an error.
    p = i + HEADER
    if p + 13 > end:
        return BAD_LENGTH
    text = p + 13 + load16(buf, p + 11) + load8(buf, p + 8) + 1
    return text if text <= end else BAD_LENGTH


@njit(nogil=True)
def _xa_query(  # type: ignore[no-untyped-def]
    buf, text, end, state, heads, entries, contents, xids, scratch
):
    # DONE, COLD, FULL, or the kind of the step that ends the group; its number is in ``xids``.
    said = X.statement(buf, text, end, xids, scratch)
    if said == X.NONE or state[IN] == 0:
        return COLD
    if said == X.END:
        return DONE
    if said == X.START:
        number = X.put(heads, entries, contents, xids, scratch)
        if number < 0:
            return FULL
        _prepare(state, number)
        return DONE
    number = X.lookup(heads, entries, contents, xids, scratch)
    if number < 0 or state[KIND] != DML or state[CUT] != 0:
        # Of an xid that is not known, or in one phase.
        return COLD
    xids[X.FOUND] = number
    X.remove(heads, entries, contents, xids, scratch)
    return COMMIT if said == X.COMMIT else ROLLBACK


@njit(nogil=True)
def _xa_prepare(  # type: ignore[no-untyped-def]
    buf, i, end, state, heads, entries, contents, xids, scratch
):
    # COLD, or the kind of the step that ends the group; its number is in ``xids``.
    p = i + HEADER
    if state[IN] == 0 or state[CUT] != 0 or state[KIND] != PREPARE or p + 1 > end:
        return COLD
    one_phase = load8(buf, p)
    if one_phase > 1 or not X.from_binary(buf, p + 1, end, True, xids, scratch):
        return COLD
    if X.lookup(heads, entries, contents, xids, scratch) != state[XID]:
        return COLD
    xids[X.FOUND] = state[XID]
    if one_phase == 0:
        return PREPARE
    X.remove(heads, entries, contents, xids, scratch)
    return COMMIT


@njit(nogil=True)
def _table_map(buf, i, end, state, maps, slots, tables, bodies, runs):  # type: ignore[no-untyped-def]
    p = i + HEADER
    if state[IN] == 0:
        return BAD_GROUP
    if p + 8 > end:
        return BAD_LENGTH
    table = _find_table(buf, p + 6, end, slots, tables, bodies)
    if table < 0:
        return NEW_TABLE
    n = state[MAPS]
    if n >= maps.shape[0]:
        return FULL
    if state[RUN_TABLE] >= 0 and state[RUN_TABLE] != table:
        _close_run(state, runs, 0)
    maps[n, M_NUMBER] = load32(buf, p) | load16(buf, p + 4) << 32
    maps[n, M_TABLE] = table
    maps[n, M_AT] = i
    maps[n, M_LENGTH] = end + CHECKSUM - i
    state[MAPS] = n + 1
    return DONE


@kernel(
    types.UniTuple(I64, 2)(
        BYTES,
        I64,
        I64,
        VECTOR,
        MATRIX,
        VECTOR,
        MATRIX,
        BYTES,
        MATRIX,
        MATRIX,
        MATRIX,
        MATRIX,
        MATRIX,
        VECTOR,
        MATRIX,
        types.uint8[:, ::1],
        VECTOR,
        types.uint8[::1],
    ),
    counted=True,
)
def walk(  # type: ignore[no-untyped-def]
    buf,
    lo,
    hi,
    state,
    maps,
    slots,
    tables,
    bodies,
    columns,
    hops,
    sources,
    runs,
    transactions,
    heads,
    entries,
    contents,
    xids,
    scratch,
):
    """Walk the whole events of ``buf[lo:hi]``.

    ``state`` int64[STATE_SIZE] carries on between calls; ``maps`` int64[:, M_SIZE] the live table
    maps; ``slots``, ``tables`` (T_SIZE), ``bodies``, ``columns`` (width of each column) and
    ``hops`` are the dictionary of tables; ``sources`` (high, low, id; id -1 behind the last) that
    of GTIDs; the last five are the table of xids of ``cdc.kernels.xids``. ``runs``
    int64[:, R_SIZE] and ``transactions`` int64[:, 2] are written; the caller sets RUNS, TXNS and
    BOUNDARY back. Returns ``(offset, code)``: everything before the offset was walked. An open run
    is closed before returning, so that runs lie within the bytes of a call.
    """
    i = lo
    code = DONE
    if lo < 0 or hi > buf.size or state.size < STATE_SIZE:
        return lo, BAD_LENGTH
    while i < hi:
        if state[RUNS] + 3 > runs.shape[0] or state[TXNS] + 1 > transactions.shape[0]:
            code = FULL
            break
        if i + HEADER + CHECKSUM > hi:
            code = BAD_LENGTH
            break
        length = load32(buf, i + LENGTH_AT)
        if length < HEADER + CHECKSUM or i + length > hi:
            code = BAD_LENGTH
            break
        end = i + length - CHECKSUM
        if crc32(buf, i, end, np.uint32(0)) != load32(buf, end):
            code = BAD_CHECKSUM
            break
        kind = load8(buf, i + 4)
        next_pos = load32(buf, i + 13)
        pos = state[POS]
        after = pos + length - state[ADDED]
        if next_pos != 0:
            after = (pos & ~np.int64(0xFFFFFFFF)) | next_pos
            if after < pos:
                after += 1 << 32
        finished = False
        step = DONE
        if kind == 19:
            code = _table_map(buf, i, end, state, maps, slots, tables, bodies, runs)
        elif 23 <= kind <= 25 or 30 <= kind <= 32:
            code = _rows_event(buf, i, end, pos, kind, state, maps, tables, columns, hops, runs)
        elif kind == 33 or kind == 34 or kind == 162:
            code = _gtid(buf, i, end, kind, state, sources, heads, entries, contents, xids, scratch)
        elif kind == 16:
            if state[IN] == 0:
                code = BAD_GROUP
            elif state[CUT] != 0:
                code = COLD
            else:
                finished = True
        elif kind == 2:
            text = _query_text(buf, i, end)
            word = _word(buf, text, end) if text >= 0 else 0
            if text < 0:
                code = text
            elif word == 5:
                step = _xa_query(buf, text, end, state, heads, entries, contents, xids, scratch)
            elif word == 1 and state[IN] == 0 and state[PIN_TS] < 0:
                code = PINNED
            elif word == 1 and (state[IN] == 0 or state[BEGUN] == 0):
                if state[IN] == 0:
                    _begin(state, _seconds_ts(buf, i), -1, pos, 1)
                state[BEGUN] = 1
            elif word == 2 and state[IN] != 0 and state[KIND] == DML and state[CUT] == 0:
                finished = True
            elif word == 4 and state[IN] != 0:
                state[CUT] = 1
            elif word != 3 or state[IN] == 0:
                code = COLD
        elif kind == 38:
            step = _xa_prepare(buf, i, end, state, heads, entries, contents, xids, scratch)
        elif not (kind == 5 or kind == 13 or kind == 14 or kind == 28 or kind == 29 or kind == 160):
            code = COLD
        if step in (COLD, FULL):
            code = step
        if code != DONE:
            break
        i += length
        state[POS] = after
        state[SEEN] += 1
        if finished:
            _finish(state, runs, transactions, i)
        elif step != DONE:
            _step(state, runs, transactions, step, xids[X.FOUND], i - length, i, pos)
    if state[RUN_TABLE] >= 0:
        _close_run(state, runs, 0)
    return i, code


@kernel(I64(BYTES, I64, I64, types.uint8[::1], I64), counted=True)
def add_checksums(source, lo, hi, out, at):  # type: ignore[no-untyped-def]
    """Copy the whole events of ``source[lo:hi]``, which end without a CRC, and append one to each.

    Returns the end in ``out``; -1 if an event's length is impossible or ``out`` is too small.
    """
    if lo < 0 or hi > source.size or at < 0:
        return np.int64(-1)
    i = lo
    while i < hi:
        if i + HEADER > hi:
            return np.int64(-1)
        length = load32(source, i + LENGTH_AT)
        if length < HEADER or i + length > hi or at + length + CHECKSUM > out.size:
            return np.int64(-1)
        out[at : at + length] = source[i : i + length]
        new = length + CHECKSUM
        for k in range(4):
            out[at + LENGTH_AT + k] = (new >> (8 * k)) & 255
        c = np.int64(crc32(out, at, at + length, np.uint32(0)))
        for k in range(4):
            out[at + length + k] = (c >> (8 * k)) & 255
        at += new
        i += length
    return np.int64(at)
