"""The xids that are in use, as the arrays that ``cdc.kernels.xids`` looks into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdc.binlog.xa import Xid
from cdc.kernels import xids as X  # noqa: N812

_ROOM = 256


class XidTable:
    """Numbers by xid, of all that is prepared or open; ``live``: texts by number, to begin with.

    ``heads`` int64[2**n], ``entries`` int64[:, E_SIZE], ``contents`` uint8[:, WIDTH], ``state``
    int64[STATE_SIZE] and ``scratch`` uint8[WIDTH] are what the kernels take.
    """

    def __init__(self, live: Mapping[int, str]) -> None:
        self.state = np.zeros(X.STATE_SIZE, np.int64)
        self.scratch = np.zeros(X.WIDTH, np.uint8)
        self._make(max(_ROOM, 2 * len(live)))
        for number, text in live.items():
            self.put(Xid.parse_text(text), number)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """In the order in which the kernels take them."""
        return self.heads, self.entries, self.contents, self.state, self.scratch

    def _make(self, room: int) -> None:
        self.heads = np.full(1 << (2 * room - 1).bit_length(), -1, np.int64)
        self.entries = np.full((room, X.E_SIZE), -1, np.int64)
        self.entries[:-1, X.E_NEXT] = np.arange(1, room)
        self.contents = np.zeros((room, X.WIDTH), np.uint8)
        self.state[X.FREE] = 0

    def full(self) -> bool:
        """Whether the next xid needs :meth:`grow`."""
        return bool(self.state[X.FREE] < 0)

    def grow(self) -> None:
        """Make room for as many again."""
        entries, contents, after = self.entries, self.contents, int(self.state[X.NEXT])
        self._make(2 * len(entries))
        for e in np.flatnonzero(entries[:, X.E_NUMBER] >= 0).tolist():
            self.state[X.LENGTH] = entries[e, X.E_LENGTH]
            self.scratch[:] = contents[e]
            self.state[X.NEXT] = entries[e, X.E_NUMBER]
            X.put_xid(*self.arrays)
        self.state[X.NEXT] = after

    def find(self, xid: Xid) -> int:
        """Its number, or -1."""
        self._load(xid)
        return int(X.find_xid(*self.arrays))

    def put(self, xid: Xid, number: int) -> None:
        """Have an xid that is not there with this number."""
        if self.full():
            self.grow()
        self._load(xid)
        after = int(self.state[X.NEXT])
        self.state[X.NEXT] = number
        X.put_xid(*self.arrays)
        self.state[X.NEXT] = after

    def remove(self, xid: Xid) -> None:
        """It has ended: the same xid is another transaction from now on."""
        self._load(xid)
        X.remove_xid(*self.arrays)

    def between(self, first: int, end: int) -> dict[int, str]:
        """Texts of the xids in use whose numbers are ``first`` to ``end - 1``."""
        numbers = self.entries[:, X.E_NUMBER]
        found = np.flatnonzero((numbers >= first) & (numbers < end))
        return {int(numbers[e]): self._text(int(e)) for e in found}

    def _text(self, e: int) -> str:
        raw = self.contents[e, : self.entries[e, X.E_LENGTH]].tobytes()
        format_id = int.from_bytes(raw[:4], "little", signed=True)
        return str(Xid(format_id, raw[6 : 6 + raw[4]], raw[6 + raw[4] :]))

    def _load(self, xid: Xid) -> None:
        raw = xid.encode_short()
        self.scratch[: len(raw)] = np.frombuffer(raw, np.uint8)
        self.state[X.LENGTH] = len(raw)
