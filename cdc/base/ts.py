"""``Ts``: the one clock. A 64-bit integer, ``physical_ms << 18 | logical``, as TiDB's TSO."""

from __future__ import annotations

from datetime import UTC, datetime

Ts = int

LOGICAL_BITS = 18
LOGICAL_MASK = (1 << LOGICAL_BITS) - 1
# A microsecond within its millisecond takes the upper bits of the logical part, so that ts from
# microsecond clocks keep their order and still leave 256 places for ties.
MICRO_SHIFT = 8

MAX_TS: Ts = (1 << 63) - 1


def compose(physical_ms: int, logical: int = 0) -> Ts:
    """Ts of a wall-clock millisecond and a logical counter below 2**18."""
    return (physical_ms << LOGICAL_BITS) | logical


def from_micros(micros: int) -> Ts:
    """Ts of microseconds since the epoch."""
    return compose(micros // 1000, (micros % 1000) << MICRO_SHIFT)


def physical_ms(ts: Ts) -> int:
    """Milliseconds since the epoch."""
    return ts >> LOGICAL_BITS


def to_text(ts: Ts) -> str:
    """``2026-11-20 12:34:56.789`` in UTC, as TiCDC's ``checkpoint_time``."""
    at = datetime.fromtimestamp(physical_ms(ts) / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{physical_ms(ts) % 1000:03d}"
