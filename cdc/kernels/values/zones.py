"""Time zones as arrays: when each offset begins, and the offset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from cdc.base.errors import InvalidError


class ZoneUnknown(InvalidError):
    """The time zone is not in the machine's database."""

    code = "TG:ErrTimeZoneUnknown"


class Zone(NamedTuple):
    """``offsets[i]`` seconds are added to UTC from second ``starts[i]`` on; both int64, read-only.

    ``starts`` ascends; the first one lies before every TIMESTAMP. The arrays cover 1970 to 2106,
    all that an unsigned 32-bit TIMESTAMP holds.
    """

    starts: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


_FIRST = 0
_LAST = (1 << 32) - 1
_STEP = 14 * 86400


def _frozen(values: list[int]) -> npt.NDArray[np.int64]:
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


def _offset(zone: ZoneInfo, second: int) -> int:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return round(offset.total_seconds())


@lru_cache(maxsize=32)
def zone_table(name: str) -> Zone:
    """The zone of this IANA name (``UTC``, ``Europe/Berlin``); ``ZoneUnknown`` if there is none."""
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ZoneUnknown(
            f"no time zone {name!r} here",
            object=name,
            hint="use an IANA name, such as Europe/Berlin",
        ) from error
    starts, offsets = [-(1 << 40)], [_offset(zone, _FIRST)]
    # zoneinfo shows no transitions, so they are searched: no offset lasts less than two weeks
    # after 1970.
    for low in range(_FIRST, _LAST, _STEP):
        high = min(low + _STEP, _LAST)
        after = _offset(zone, high)
        if after == offsets[-1]:
            continue
        left, right = low, high
        while right - left > 1:
            middle = (left + right) // 2
            if _offset(zone, middle) == offsets[-1]:
                left = middle
            else:
                right = middle
        starts.append(right)
        offsets.append(after)
    return Zone(_frozen(starts), _frozen(offsets))


UTC_ZONE = Zone(_frozen([-(1 << 40)]), _frozen([0]))
