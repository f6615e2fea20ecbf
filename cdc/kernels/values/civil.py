"""Seconds of UTC as the date and clock of a zone."""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import small


@small
def local_second(seconds, starts, offsets):  # type: ignore[no-untyped-def]
    """``(second of the zone, 1)``, or ``(0, 0)`` outside of the zone's table (see ``zones``)."""
    low = 0
    high = starts.size
    if high == 0 or offsets.size != high or seconds < starts[0]:
        return np.int64(0), 0
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= seconds:
            low = middle
        else:
            high = middle
    return seconds + offsets[low], 1


@small
def civil_date(days):  # type: ignore[no-untyped-def]
    """``(year, month, day)`` of a day number since 1970-01-01.

    H. Hinnant, "chrono-compatible low-level date algorithms".
    """
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    return yoe + era * 400 + (1 if month <= 2 else 0), month, doy - (153 * mp + 2) // 5 + 1


@small
def day_number(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms")."""
    y = year - (1 if month <= 2 else 0)
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468
