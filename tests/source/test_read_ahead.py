"""Blocks that a thread read ahead: in order, bounded, errors in their place, and always an end."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest

from cdc.source.read_ahead import Block, ReadAhead

BLOCKS, SIZE = 3, 256


class Scripted:
    """A source of given bytes in given pieces; then an error, or silence."""

    def __init__(self, data: bytes, pieces: random.Random, error: Exception | None = None) -> None:
        self._data, self._pieces, self._error = data, pieces, error
        self.given = self.consumed = self.largest_lead = 0
        self.threads: set[threading.Thread] = set()
        self._using = threading.Lock()
        self.interrupted = threading.Event()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert self._using.acquire(blocking=False), "two threads use the source"
        try:
            yield
        finally:
            self._using.release()

    def readable(self, timeout_s: float = 0.0) -> bool:
        with self._alone():
            return self.given < len(self._data) or self._error is not None

    def read_into(self, block: memoryview) -> int:
        with self._alone():
            self.threads.add(threading.current_thread())
            if self.given == len(self._data):
                assert self._error is not None
                raise self._error
            n = min(self._pieces.randrange(1, 2 * SIZE), len(block), len(self._data) - self.given)
            block[:n] = self._data[self.given : self.given + n]
            self.given += n
            self.largest_lead = max(self.largest_lead, self.given - self.consumed)
            return n

    def interrupt(self) -> None:
        self.interrupted.set()


class Swapping(ReadAhead):
    """Hands out the second and third block in the wrong order."""

    _taken: tuple[Block, int] | None = None
    _count = 0

    def take(self) -> tuple[Block, int]:
        self._count += 1
        if self._count == 3 and self._taken is not None:
            return self._taken
        block, n = super().take()
        if self._count == 2:
            self._taken = (block[:n].copy(), n)
            block, n = super().take()
        return block, n


def _all(kind: type[ReadAhead], source: Scripted, seed: int) -> bytes:
    pause = random.Random(seed)
    out = bytearray()
    with closing(kind(source, BLOCKS, SIZE)) as ahead:
        while ahead.readable(5):
            block, n = ahead.take()
            assert n > 0
            if pause.random() < 0.2:
                # Let the thread run ahead as far as it may.
                threading.Event().wait(0.001)
            out += block[:n].tobytes()
            source.consumed = len(out)
    return bytes(out)


def _data(seed: int, size: int = 60_000) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8).tobytes()


@pytest.mark.parametrize("seed", range(5))
def test_bytes_come_in_order_from_whichever_thread(seed: int) -> None:
    data = _data(seed)
    source = Scripted(data, random.Random(seed))
    assert _all(ReadAhead, source, seed) == data
    assert {t.name for t in source.threads} == {"read-ahead", threading.current_thread().name}
    # Back-pressure: what lies in memory is bounded, however slow we are.
    assert source.largest_lead <= BLOCKS * SIZE
    assert source.interrupted.is_set()


def test_swapped_blocks_would_be_noticed() -> None:
    data = _data(1)
    assert _all(Swapping, Scripted(data, random.Random(1)), 1) != data


def test_while_little_comes_the_caller_reads_alone() -> None:
    source = Scripted(_data(1, 100), random.Random(1))
    source._pieces = type("Small", (random.Random,), {"randrange": lambda *_: 1})()
    with closing(ReadAhead(source, BLOCKS, SIZE)) as ahead:
        for _ in range(100):
            assert ahead.readable()
            assert ahead.take()[1] == 1
        assert not ahead.readable()
    assert source.threads == {threading.current_thread()}
    assert ahead._thread is None


@pytest.mark.parametrize("seed", range(5))
def test_an_error_comes_behind_all_bytes_before_it_and_again(seed: int) -> None:
    data = _data(seed, 5000 + seed)
    source = Scripted(data, random.Random(seed), ConnectionError("reset"))
    out = bytearray()
    with closing(ReadAhead(source, BLOCKS, SIZE)) as ahead:
        while len(out) < len(data):
            assert ahead.readable()
            block, n = ahead.take()
            out += block[:n].tobytes()
        assert bytes(out) == data
        for _ in range(2):
            assert ahead.readable()
            with pytest.raises(ConnectionError, match="reset"):
                ahead.take()


def test_closing_while_the_thread_waits_for_a_free_block() -> None:
    source = Scripted(_data(1), random.Random(1))
    ahead = ReadAhead(source, BLOCKS, SIZE)
    while ahead._thread is None:
        ahead.take()
    # Nobody takes any more: all blocks fill up.
    with ahead._changed:
        assert ahead._changed.wait_for(lambda: not ahead._free, 30)
    ahead.close()
    assert not ahead._thread.is_alive()


class Blocking(Scripted):
    """Its third read waits for bytes that never come, as in the middle of a TLS record."""

    reads = 0

    def read_into(self, block: memoryview) -> int:
        self.reads += 1
        if self.reads == 3:
            assert self.interrupted.wait(30)
            raise ConnectionError("interrupted")
        block[:] = bytes(len(block))
        return len(block)


def test_closing_while_the_thread_is_in_a_read() -> None:
    source = Blocking(_data(1), random.Random(1))
    with closing(ReadAhead(source, BLOCKS, SIZE)) as ahead:
        ahead.take()
        with ahead._changed:
            assert ahead._changed.wait_for(lambda: source.reads == 3 or ahead._ready, 30)
    assert ahead._thread is not None
    assert not ahead._thread.is_alive()
