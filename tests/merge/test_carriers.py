"""Commit TSOs out of events, those of PolarDB-X made from the description of their format.

What stock servers write is tested on real binlogs, in ``tests/cluster``.
"""

from __future__ import annotations

import random
import struct
import zlib

import numpy as np
import pytest

from cdc.binlog.gtid import Gtid, GtidSource, MariadbGtid, MariadbGtidEvent, MariadbGtidFlags
from cdc.binlog.query import Query
from cdc.coord.names import CARRIER_NAMES
from cdc.merge.carriers import CARRIERS, commit_log_rows
from cdc.merge.errors import MergeCommitMalformed

TSO = 7234839881111830594
TXN = 0x1881C1536F401000
GTRID = f"drds-{TXN:x}@9d11c57d194702f4"


def _event(kind: int, body: bytes, timestamp: int = 1_700_000_000) -> bytes:
    head = struct.pack("<IBIIIH", timestamp, kind, 1, 19 + len(body) + 4, 0, 0) + body
    return head + struct.pack("<I", zlib.crc32(head))


def _xa_commit(gtrid: str = GTRID, status: bytes = b"", thread: int = 7, when: int = 1_700_000_000):
    text = f"XA COMMIT X'{gtrid.encode().hex()}',X'{b'D1_P00000_GROUP@0000'.hex()}',1"
    query = Query(thread, 0, 0, "d", text.encode(), status)
    return _event(2, query.encode(), when)


def _read(carrier: str, *events: bytes) -> list[int]:
    data = np.frombuffer(b"".join(events), np.uint8)
    begins, ends = np.array([0], np.int64), np.array([len(data)], np.int64)
    return CARRIERS[carrier].commits(data, begins, ends, "n1")[0].tolist()


def _sequence(kind: int, value: int) -> bytes:
    return _event(80, bytes([kind]) + value.to_bytes(8, "little"))


def _gcn(flags: int, value: int, branches: tuple[int, int] | None = None) -> bytes:
    body = bytes([flags]) + value.to_bytes(8, "little")
    return _event(105, body + (struct.pack("<HH", *branches) if branches else b""))


def test_sequence_events() -> None:
    snapshot, heartbeat = _sequence(1, 5), _sequence(3, 9)
    assert _read("sequence", _sequence(2, TSO), _xa_commit()) == [TSO, TXN, 0]
    assert _read("sequence", snapshot, _sequence(2, TSO), heartbeat, _xa_commit())[0] == TSO
    assert _read("sequence", snapshot, _xa_commit()) == [0, TXN, 0]
    # One that belongs to a group before, as to a commit in one phase.
    one_phase = _event(38, b"\x01" + bytes(12))
    assert _read("sequence", _sequence(2, TSO), one_phase, _xa_commit()) == [0, TXN, 0]


def test_gcn_events() -> None:
    gtid = _event(33, bytes(42))
    assert _read("gcn", _event(101, b"x" * 20), _gcn(5, TSO), gtid, _xa_commit())[:2] == [TSO, TXN]
    assert _read("gcn", _gcn(0x25, TSO, (3, 1)), gtid, _xa_commit()) == [TSO, TXN, 3]
    # Committed with a number of the node's own: not the coordinator's.
    assert _read("gcn", _gcn(1, TSO), gtid, _xa_commit()) == [0, TXN, 0]


def test_status_variable_among_others() -> None:
    gcn = bytes([200]) + TSO.to_bytes(8, "little")
    others = (
        b"\x00" + bytes(4) + b"\x01" + bytes(8) + b"\x06\x03std" + b"\x03" + bytes(4)
        + b"\x04" + bytes(6) + b"\x05\x03UTC" + b"\x07\x00\x00" + b"\x08\x00\x00"
        + b"\x0b\x01u\x01h" + b"\x0c\x02a\x00bc\x00" + b"\x0d" + bytes(3) + b"\x02\x01x\x00"
    )  # fmt: skip
    assert _read("query-gcn", _xa_commit(status=others + gcn)) == [TSO, TXN, 0]
    assert _read("query-gcn", _xa_commit(status=bytes([201]) + bytes(8) + gcn))[0] == TSO
    assert _read("query-gcn", _xa_commit(status=others)) == [0, TXN, 0]
    # Behind one of unknown length nothing can be found.
    assert _read("query-gcn", _xa_commit(status=b"\xf0" + gcn))[0] == 0


def test_header_time_and_thread() -> None:
    tso = (1_700_000_000 * 1000 + 987) << 22 | 77 << 8
    thread = 1 << 31 | 987 << 21 | 77 << 7
    assert _read("timestamp", _xa_commit(thread=thread)) == [tso, TXN, 0]
    assert _read("timestamp", _xa_commit(thread=thread & 0x7FFFFFFF)) == [0, TXN, 0]


def test_fields_of_gtids() -> None:
    found = MariadbGtidEvent(MariadbGtid(9, 1, TSO), MariadbGtidFlags.COMPLETED_XA)
    assert _read("gtid", _event(162, found.encode()), _xa_commit()) == [TSO, TXN, 0]
    source = GtidSource("3e11fa47-71ca-11e1-9e33-c80aa9429562", "")
    gtid = Gtid(source, 5, 1, 0, 1, 1_700_000_000_000_000, TSO >> 8, 200, 80033, 80033, None)
    read = _read("original-timestamp", _event(33, gtid.encode()), _xa_commit())
    assert read == [TSO >> 8 << 8, TXN, 0]
    own = Gtid(source, 5, 1, 0, 1, 1_700_000_000_000_000, None, 200, 80033, 80033, None)
    assert _read("original-timestamp", _event(33, own.encode()), _xa_commit())[0] == 0


@pytest.mark.parametrize(
    "gtrid", ["a", "drds-@1", "drds-12", "drds-12g@1", "drds-fffffffffffffffff@1", "xa-12@1", ""]
)
def test_an_xid_of_somebody_else_has_no_tso(gtrid: str) -> None:
    assert _read("sequence", _sequence(2, TSO), _xa_commit(gtrid)) == [0, -1, 0]


def test_rows_of_a_commit_log() -> None:
    def rows(kind: int, *values: tuple[int, int, int]) -> bytes:
        head = bytes(6) + b"\x01\x00" + (b"\x02\x00" if kind == 30 else b"") + b"\x03\xff"
        return _event(kind, head + b"".join(b"\xf8" + struct.pack("<qqi", *v) for v in values))

    for kind in (23, 30):
        data = b"".join(
            (_event(19, b"m" * 40), rows(kind, (1, 10, 2), (2, 20, 3)), _event(32, b"x" * 30))
        )
        found = commit_log_rows(
            np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]), "n1"
        )
        assert found.tolist() == [[10, 1, 2], [20, 2, 3]]
    bad = _event(30, bytes(6) + b"\x01\x00\x02\x00\x04\xff" + bytes(30))
    with pytest.raises(MergeCommitMalformed):
        commit_log_rows(np.frombuffer(bad, np.uint8), np.array([0]), np.array([len(bad)]), "n1")


def test_hostile_bytes_are_an_error_or_nothing() -> None:
    chosen = random.Random(5)
    events = [_sequence(2, TSO), _gcn(0x25, TSO, (3, 1)), _event(33, bytes(60)), _xa_commit()]
    events.append(_xa_commit(status=bytes([200]) + TSO.to_bytes(8, "little")))
    whole = b"".join(events)
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(chosen.randrange(1, 4)):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        cut = bytes(data[: chosen.randrange(len(data))])
        for name in CARRIERS:
            try:
                _read(name, cut)
            except MergeCommitMalformed:
                continue


def test_names_that_requests_may_have() -> None:
    assert sorted(CARRIER_NAMES) == sorted(CARRIERS)
