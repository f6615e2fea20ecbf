"""Reading ahead: under load a thread takes the next blocks off the socket while others are walked.

While little comes, the caller reads by itself, so that a single transaction waits for no thread.
Once an eighth of a block came at once, the source is lent to the thread, which fills free blocks
until nothing is waiting there or no block is free, and gives the source back.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.uint8]


class ByteSource(Protocol):
    """Where bytes come from; used by one thread at a time."""

    def readable(self, timeout_s: float = 0.0) -> bool:
        """Whether bytes (or the end) are there within the time."""
        ...

    def read_into(self, block: memoryview) -> int:
        """Take what is there, at least one byte; raises at the end."""
        ...

    def interrupt(self) -> None:
        """Make a read that blocks in another thread, and all later ones, end at once."""
        ...


class ReadAhead:
    """Blocks of a source in their order, ``blocks`` of ``block_bytes`` at most in memory.

    An error of the source arrives behind all bytes before it, and again at each later call.
    Invariant: exactly one thread uses the source: ours while ``_lent``, else the caller's.
    """

    def __init__(self, source: ByteSource, blocks: int, block_bytes: int) -> None:
        self._source = source
        self._busy = block_bytes // 8
        self._free = [np.empty(block_bytes, np.uint8) for _ in range(blocks)]
        self._ready: deque[tuple[Block, int]] = deque()
        self._held: Block | None = None
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._lent = self._wanted = self._closed = False
        self._thread: threading.Thread | None = None

    def readable(self, timeout_s: float = 0.0) -> bool:
        """Whether :meth:`take` has something (bytes or an error) within the time.

        False says that nothing was waiting, neither here nor in the source.
        """
        if self._arrived():
            return True
        return self._source.readable(timeout_s)

    def take(self) -> tuple[Block, int]:
        """The next block and how many of its bytes count; it is good until the next call.

        Waits for bytes if there are none. Raises what the source raised.
        """
        with self._changed:
            if self._held is not None:
                self._free.append(self._held)
                self._held = None
                self._changed.notify_all()
        if not self._arrived():
            block = self._free.pop()
            self._held = block
            count = self._source.read_into(memoryview(block.data))
        elif self._ready:
            block, count = self._ready.popleft()
            self._held = block
        else:
            assert self._error is not None
            raise self._error
        if count >= self._busy and self._error is None:
            self._lend()
        return block, count

    def close(self) -> None:
        """End the thread; blocks that were not taken are dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._source.interrupt()
            self._thread.join()

    def _arrived(self) -> bool:
        # The thread takes only what is there, so it is soon clear whether it found something.
        with self._changed:
            self._wanted = True
            self._changed.wait_for(lambda: self._ready or self._error or not self._lent)
            self._wanted = False
            return bool(self._ready) or self._error is not None

    def _lend(self) -> None:
        with self._changed:
            if self._lent:
                return
            self._lent = True
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
            self._thread.start()

    # --- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or (self._lent and self._free))
                if self._closed:
                    self._lent = False
                    self._changed.notify_all()
                    return
                block = self._free.pop()
            count, more, error = self._fill(memoryview(block.data))
            with self._changed:
                if count:
                    self._ready.append((block, count))
                else:
                    self._free.append(block)
                self._error = error
                self._lent = more
                self._changed.notify_all()

    def _fill(self, view: memoryview) -> tuple[int, bool, BaseException | None]:
        # Bytes read, whether more may be waiting, and what ended the source.
        count = 0
        try:
            while count < len(view):
                if not self._source.readable():
                    return count, False, None
                count += self._source.read_into(view[count:])
                if self._wanted:
                    break
        except BaseException as error:
            return count, False, error
        return count, True, None
