"""Times and lengths of time on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from cdc.base.errors import InvalidError
from cdc.base.ts import MAX_TS, Ts, compose, from_micros

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"([1-9]\d{0,8})([smhd])\Z")
_AGO = " ago"


class DurationInvalid(InvalidError):
    """A length of time on the command line cannot be read."""

    code = "TG:ErrDurationInvalid"


class TsInvalid(InvalidError):
    """A moment on the command line is neither a ts nor a time."""

    code = "TG:ErrTsInvalid"


def seconds(text: str) -> int:
    """``90s``, ``15m``, ``12h``, ``30d``. Raises :class:`DurationInvalid`."""
    found = _SPAN.match(text.strip())
    if found is None:
        raise DurationInvalid(
            "is no length of time", object=text, hint="write 90s, 15m, 12h or 30d"
        )
    return int(found[1]) * _SECONDS[found[2]]


def moment(text: str, now: Callable[[], Ts]) -> Ts:
    """The ts of a ts (0 too), of ``10m ago``, ``now``, or of an RFC 3339 time; without a zone: UTC.

    ``now`` is asked where the present counts. Raises :class:`TsInvalid`.
    """
    given = text.strip()
    if given.isascii() and given.isdecimal() and int(given) <= MAX_TS:
        return int(given)
    if given == "now":
        return now()
    span = given.removesuffix(_AGO)
    if span != given and _SPAN.match(span.strip()):
        return max(0, now() - compose(seconds(span) * 1000))
    try:
        at = datetime.fromisoformat(given)
        # A date alone, or one that was cut short, would be a guess.
        if not re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", given, re.IGNORECASE):
            raise ValueError
        since = at.replace(tzinfo=at.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        if micros < 0:
            raise ValueError
    except (ValueError, OverflowError):
        raise TsInvalid(
            "is no moment",
            object=text,
            hint="write a ts (cdc cli tso query), 2026-11-20T12:34:56Z, or '10m ago'",
        ) from None
    return from_micros(micros)


def since(text: str, now: Callable[[], Ts]) -> Ts:
    """The same, where ``10m`` is ``10m ago`` too."""
    return moment(f"{text}{_AGO}" if _SPAN.match(text.strip()) else text, now)
