"""Objects and arrays of MySQL's binary JSON: how many members, and where they end.

Source: MySQL's json_binary format, large (4-byte words) and small (2-byte words).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cdc.kernels.compile import rare
from cdc.kernels.memory import load16, load32

ARRAY: Final = 2  # and above: arrays; below: objects
LAST_CONTAINER: Final = 3


@rare
def word(buf, p, wide):  # type: ignore[no-untyped-def]
    """A count, length or offset at ``p``."""
    return load32(buf, p) if wide else load16(buf, p)


@rare
def members(buf, p, end, kind):  # type: ignore[no-untyped-def]
    """Members and end of the container at ``p``; -1 members if it does not fit before ``end``."""
    wide = kind & 1 != 0
    size = 4 if wide else 2
    if p + 2 * size > end:
        return np.int64(-1), end
    count = word(buf, p, wide)
    length = word(buf, p + size, wide)
    entries = 2 * size + count * (1 + size + (0 if kind >= ARRAY else size + 2))
    if p + length > end or entries > length:
        return np.int64(-1), end
    return count, p + length
