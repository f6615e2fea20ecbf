"""Damaged bytes: of the way, or of the server's own file? Pulled again they tell."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.base.errors import TidegateError
from cdc.binlog.errors import (
    EventChecksumBad,
    EventLengthBad,
    EventMalformed,
    EventTruncated,
    EventUnknown,
    TransactionStructureBad,
)

# What a flipped bit may look like; without checksums all of them.
_DAMAGE = (
    EventChecksumBad,
    EventLengthBad,
    EventMalformed,
    EventTruncated,
    EventUnknown,
    TransactionStructureBad,
)


@dataclass(frozen=True, slots=True)
class Damage:
    """Where bytes made no sense last, and how often there in a row."""

    place: str = ""
    times: int = 0


def seen(before: Damage, error: TidegateError, start: str) -> Damage | None:
    """The damage with one more sight; ``None`` if the error says something else.

    ``start``: where the connection began, for an error that names no place.
    """
    if not isinstance(error, _DAMAGE):
        return None
    place = error.position or start
    return Damage(place, before.times + 1 if before.place == place else 1)
