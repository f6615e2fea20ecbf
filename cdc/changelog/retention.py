"""Which segments may go."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.base.ts import Ts
from cdc.changelog.state import SegmentInfo


def removable(
    segments: Sequence[SegmentInfo],
    checkpoint_ts: Ts,
    prepared_from: int,
    now_ms: int,
    keep_s: int,
) -> tuple[int, ...]:
    """Numbers of the segments to remove; always the oldest ones, without a gap.

    ``segments`` are all, oldest first; the last one is being written and stays. A segment goes
    when every changefeed has passed it (``checkpoint_ts``, the lowest), it is older than
    ``keep_s``, no prepared XA transaction has rows in it (``prepared_from``: lowest segment that
    one has, 0 if none), and no segment that stays points into it.
    """
    count = 0
    for segment in segments[:-1]:
        if segment.last_ts > checkpoint_ts or segment.time_ms + keep_s * 1000 > now_ms:
            break
        count += 1
    needed = prepared_from or segments[-1].number if segments else 0
    for segment in segments[count:]:
        needed = min(needed, segment.oldest)
    for i in range(count - 1, -1, -1):
        if segments[i].number >= needed:
            count = i
            needed = min(needed, segments[i].oldest)
    return tuple(s.number for s in segments[:count])
