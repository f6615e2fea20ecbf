"""Where a table's messages go, as far as the encoder must know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from cdc.kernels import layout


class RouteMode(IntEnum):
    """How a row finds its partition."""

    CONSTANT = layout.MODE_CONSTANT
    TS = layout.MODE_TS
    COLUMNS = layout.MODE_COLUMNS


@dataclass(frozen=True, slots=True)
class Route:
    """A table's topic as numbers, and the rule for its partitions.

    Destinations of a job are numbered through all its topics: ``base`` is the number of partition 0
    of this table's topic, ``partitions`` how many it has. ``partition`` is for CONSTANT,
    ``columns`` (ordinals in the table) for COLUMNS: the hash is the XOR of the CRC32 of schema and
    table and of each (name, value), modulo ``partitions``, as TiCDC's. With ``block`` the one
    column is an integer, and so many low bits of it do not count: neighbours go together.
    ``hashed`` are the schema and table that count, None for the table's own.
    """

    mode: RouteMode = RouteMode.CONSTANT
    partitions: int = 1
    partition: int = 0
    base: int = 0
    columns: tuple[int, ...] = ()
    block: int = 0
    hashed: tuple[str, str] | None = None
