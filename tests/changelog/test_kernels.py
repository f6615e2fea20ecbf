"""CRC against zlib."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

from cdc.kernels.crc import check_events, crc32
from tests.changelog.events import query, rows, table_map


def _array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def test_crc_equals_zlib_at_every_length_alignment_and_seed() -> None:
    data = random.Random(1).randbytes(200)
    buf = _array(data)
    for lo in range(20):
        for hi in range(lo, 200, 7):
            seed = (lo * 7919 + hi) & 0xFFFFFFFF
            assert crc32(buf, lo, hi, np.uint32(seed)) == zlib.crc32(data[lo:hi], seed)


def test_crc_equals_zlib_over_many_blocks() -> None:
    # Longer ranges are folded 64 bytes a step where the processor can, the rest goes by tables.
    chosen = random.Random(2)
    data = chosen.randbytes(1 << 14)
    buf = _array(data)
    for _ in range(3000):
        lo = chosen.randrange(400)
        hi = lo + chosen.choice((chosen.randrange(300), chosen.randrange(len(data) - lo)))
        seed = chosen.getrandbits(32)
        assert crc32(buf, lo, hi, np.uint32(seed)) == zlib.crc32(data[lo:hi], seed)


def test_crc_never_reads_outside() -> None:
    buf = _array(b"abc")
    assert crc32(buf, -5, 99, np.uint32(0)) == zlib.crc32(b"abc")
    assert crc32(buf, 3, 1, np.uint32(0)) == 0


def _events() -> list[bytes]:
    return [table_map(1, "a"), rows(1, b"x" * 50), query("create table t (a int)"), rows(1, b"")]


def test_check_events_accepts_good_ones_and_names_each_torn_length() -> None:
    events = _events()
    data = b"".join(events)
    starts = [sum(map(len, events[:i])) for i in range(len(events) + 1)]
    buf = _array(data)
    for hi in range(len(data) + 1):
        ok, bad = check_events(buf, 0, hi)
        assert bad == -1
        assert ok == max(s for s in starts if s <= hi)


@pytest.mark.parametrize("bit", range(8))
def test_check_events_finds_every_flipped_bit(bit: int) -> None:
    events = _events()
    data = b"".join(events)
    starts = [sum(map(len, events[:i])) for i in range(len(events))]
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << bit
        ok, bad = check_events(_array(bytes(broken)), 0, len(data))
        start = max(s for s in starts if s <= at)
        assert ok == start
        assert bad in (start, -1)  # a length that grew makes the event look torn


def test_hostile_bytes_never_read_outside() -> None:
    chance = random.Random(2)
    for _ in range(2000):
        buf = _array(chance.randbytes(chance.randrange(0, 120)))
        lo, hi = chance.randrange(-10, 150), chance.randrange(-10, 150)
        ok, _ = check_events(buf, lo, hi)
        assert ok <= max(buf.size, lo)
