"""Virtual TSO: the place of a transaction in the one order of a cluster.

A cluster's timestamp service hands out TSOs, ``physical_ms << 22 | logical``. A distributed
transaction has one of its own; what committed without one, on a single node, comes behind the
largest that its node had seen, with a sequence number. Kept and compared as integers; the text of
54 digits that PolarDB-X writes is made at the edges only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cdc.base.ts import LOGICAL_BITS, Ts

TSO_LOGICAL_BITS = 22
TSO_TO_TS_SHIFT = TSO_LOGICAL_BITS - LOGICAL_BITS
_TEXT = re.compile(r"(\d{19})(\d{19})(\d{10})(\d{6})", re.ASCII)


class VTso(NamedTuple):
    """Compares in the cluster's order; ``node`` counts from 1, and is 0 for what all nodes share.

    ``sequence`` is 0 for a distributed transaction, and rises from 1 for those behind it.
    """

    tso: int
    transaction: int
    sequence: int = 0
    node: int = 0

    def __str__(self) -> str:
        """54 digits: TSO (19), transaction (19), sequence (10), node (6)."""
        return f"{self.tso:019d}{self.transaction:019d}{self.sequence:010d}{self.node:06d}"

    @classmethod
    def parse(cls, text: str) -> VTso:
        """Inverse of ``str``; ValueError for anything but 54 digits."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"not a virtual TSO: {text!r}")
        return cls(*map(int, found.groups()))


def ts_of(tso: int) -> Ts:
    """The first ts of a TSO's moment; what the logical part loses of its precision is lost."""
    return tso >> TSO_TO_TS_SHIFT
