"""Where a log comes from: its id, and the ts that earlier logs of its upstream gave transactions.

A log that takes the place of one that is lost begins at an *anchor* of it and reads the upstream
anew. Ledgers and store speak of transactions by the ts that the lost log gave them; so it gives
those, the *pins*, the same ts again, and all between them ts in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cdc.base.errors import InternalError
from cdc.base.position import TransactionName
from cdc.base.ts import Ts
from cdc.changelog import files, lines, names
from cdc.changelog.errors import LogCorrupt

ROOM_BELOW_PIN: Ts = 1000 << 18
"""So far below a pinned ts another transaction may have its own time: there is room for 2**18 in
each millisecond, whatever times those in between have."""


class PinsDisagree(InternalError):
    """Two positions say that one upstream has two orders."""

    code = "TG:ErrPinsDisagree"


@dataclass(frozen=True, slots=True)
class Pin:
    """A transaction that gets the ts of its name; all behind it get one above ``floor``."""

    name: TransactionName
    floor: Ts


@dataclass(frozen=True, slots=True)
class Origin:
    """``log`` is the log's id. ``pins`` rise by ts; ``floor``: no ts at or below it is given.

    ``prepared``: xids, as text, of XA transactions that are prepared where it begins. Whoever reads
    it has had what they commit.
    """

    log: str
    floor: Ts = 0
    pins: tuple[Pin, ...] = ()
    prepared: frozenset[str] = frozenset()

    @classmethod
    def new(cls, floor: Ts = 0, pins: tuple[Pin, ...] = (), prepared: Iterable[str] = ()) -> Origin:
        """Of a log that is being made."""
        return cls(uuid.uuid4().hex, floor, pins, frozenset(prepared))

    @property
    def highest(self) -> Ts:
        """The ts of the highest position that it was made to have; 0 if there was none."""
        return self.pins[-1].floor if self.pins else self.floor

    def holds(self, ts: Ts, name: TransactionName, begin: Ts) -> bool:
        """Whether a position at ``ts`` behind the named transaction lies there in this log too.

        ``begin``: the log holds all above it.
        """
        if name.ts <= begin:
            return ts <= self.floor
        return any(
            pin.name.ts == name.ts and pin.name.same(name) and name.ts <= ts <= pin.floor
            for pin in self.pins
        )


UNKNOWN = Origin("")
"""Of a log that an earlier version has made."""


def pinned(named: Iterable[tuple[Ts, TransactionName]], above: Ts) -> tuple[Ts, tuple[Pin, ...]]:
    """The floor and the pins of a log that begins above ``above``.

    ``named``: positions, each with the last transaction at or below it. Raises PinsDisagree.
    """
    floor = above
    pins: list[Pin] = []
    for name, ts in sorted({(name, ts) for ts, name in named}):
        if name.ts <= above:
            floor = max(floor, ts)
        elif pins and _one(pins[-1].name, name):
            pins[-1] = Pin(name, max(ts, pins[-1].floor))
        else:
            pins.append(Pin(name, ts))
    lowest = floor
    for pin in pins:
        if pin.name.ts <= lowest or pin.name.is_none:
            raise PinsDisagree(
                f"{pin.name} has ts {pin.name.ts}, but all up to {lowest} lies before it",
                object="positions of changefeeds",
                hint="positions of one upstream contradict each other; please report this",
            )
        lowest = pin.floor
    return floor, tuple(pins)


def _one(known: TransactionName, name: TransactionName) -> bool:
    """Whether both are one name; what an earlier version wrote has no cut, and sorts first."""
    return known[:4] == name[:4] and known.cut in {(), name.cut}


def save(folder: Path, origin: Origin) -> None:
    """Write it down, durably."""
    pins = [[*pin.name.to_list(), pin.floor] for pin in origin.pins]
    value = {"log": origin.log, "floor": origin.floor, "pins": pins}
    if origin.prepared:
        value["prepared"] = sorted(origin.prepared)
    files.replace(folder / names.ORIGIN, lines.encode(value))


def load(folder: Path) -> Origin | None:
    """Of a log; None of one that an earlier version has made. Raises LogCorrupt."""
    try:
        found = list(lines.scan((folder / names.ORIGIN).read_bytes()))
    except FileNotFoundError:
        return None
    if len(found) != 1 or found[0].body is None:
        raise LogCorrupt(
            "it has a wrong CRC",
            object=names.ORIGIN,
            position=f"{names.ORIGIN}:0",
            hint="restore the file from a copy, or move the log's folder away: it is pulled anew",
        )
    value = found[0].parse()
    pins = tuple(Pin(TransactionName.of(name), int(floor)) for *name, floor in value["pins"])
    prepared = frozenset(map(str, value.get("prepared", ())))
    return Origin(str(value["log"]), int(value["floor"]), pins, prepared)


def of(folder: Path) -> Origin:
    """The same; of a log that an earlier version has made what is known of it: nothing."""
    return load(folder) or UNKNOWN
