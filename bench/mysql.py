"""``mysql_bulk``, ``mysql_single``, ``mysql_sql``: from the upstream's binlog into a target.

Both sides read the same binlog of one upstream, which holds the whole load before a clock starts:
ours through a gate that opens, the peer by START SLAVE. Both clocks start when the upstream lists
the side's dump thread and end when the last transaction is visible at its target, looked at every
5 ms. Runs are interleaved, each on empty tables, after one whole load that makes both sides warm;
the other side has caught up or is shut off meanwhile. Count and checksum of the rows are compared
with the upstream's after each run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from bench import load, ours, replica
from bench.arena import DURABILITY, Arena, arena, digest, marks, wait_marks
from bench.figures import Figure
from bench.ours import Ours
from bench.processes import cpu_by_kind, cpu_seconds
from bench.settings import Settings
from tests.servers.database import Database

Statements = Callable[[int], Iterator[str]]


@dataclass(frozen=True)
class Item:
    """A figure: its load, how many rows of it (or transactions of one row), how ours applies."""

    name: str
    rows: int
    statements: Statements
    parameters: str = ""


def bulk(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Transactions of 2,000 rows."""
    return _measure(Item("mysql_bulk", settings.rows or 600_000, load.bulk), settings)


def single(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Transactions of one row: insert, update, delete.

    Ours, as it is by default, puts many of them into one at the target; the replica commits each.
    """
    return _measure(Item("mysql_single", settings.rows or 100_000, load.single), settings)


def global_(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """The same with one target transaction for each of the upstream, as the replica has it."""
    rows = settings.rows or 100_000
    item = Item("mysql_global", rows, load.single, "transaction-atomicity=global")
    return _measure(item, settings)


def sql(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Transactions of 2,000 rows, applied as SQL text."""
    item = Item("mysql_sql", settings.rows or 600_000, load.bulk, "apply=sql")
    return _measure(item, settings)


@dataclass
class Side:
    """One way from the upstream into a server; ``start`` returns when its clock started."""

    name: str
    server: Database
    start: Callable[[], float]
    stop: Callable[[], None]
    check: Callable[[], None]
    cpu: Callable[[], dict[str, float]]
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Median of the runs, rows/s."""
        return statistics.median(run["rows_per_s"] for run in self.runs)


def sink_uri(target: Database, parameters: str = "") -> str:
    """Our sink as it is without any setting: one connection."""
    return f"{target.uri()}/?{parameters}"


def our_side(place: Arena, feed: Ours) -> Side:
    """The changefeed behind its gate."""
    process = feed.server.process
    assert process is not None
    pid = process.pid
    return Side(
        "ours",
        place.target,
        feed.gate.open,
        feed.gate.close,
        feed.check,
        lambda: cpu_by_kind(pid) | _servers(place.upstream, place.target),
    )


def peer_side(place: Arena) -> Side | None:
    """The replica, where it is wanted."""
    peer = place.peer
    if peer is None:
        return None
    return Side(
        "replica",
        peer.database,
        peer.start,
        peer.stop,
        peer.check,
        lambda: _servers(place.upstream, peer.database),
    )


def _servers(upstream: Database, target: Database) -> dict[str, float]:
    return {"upstream": cpu_seconds(upstream.pid), "target": cpu_seconds(target.pid)}


def _measure(item: Item, settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    with (
        arena(settings.server, peers=settings.peers) as place,
        ours.feeding(place.upstream, "ours", sink_uri(place.target, item.parameters)) as feed,
    ):
        sides = [s for s in (our_side(place, feed), peer_side(place)) if s is not None]
        for number in range(settings.runs + 1):
            # Who goes first changes; the first round only warms.
            order = sides if number % 2 else sides[::-1]
            _round(item, place, order, warm=number == 0)
    mine = sides[0]
    detail: dict[str, Any] = {side.name: side.runs for side in sides}
    detail["durability"] = DURABILITY
    if len(sides) == 1:
        return [Figure(item.name, round(mine.rate), "rows/s")], {item.name: detail}
    title = replica.title(mine.server.kind, settings.server)
    figure = Figure.more(item.name, mine.rate, "rows/s", title, sides[1].rate)
    return [figure], {item.name: detail}


def _round(item: Item, place: Arena, sides: list[Side], *, warm: bool) -> None:
    """One load, which each side takes in its turn."""
    if not warm:
        for side in sides:
            side.stop()
        for server in (place.upstream, *(side.server for side in sides)):
            load.empty(server)
    load.run(place.upstream, chain(item.statements(item.rows), marks()))
    wanted = digest(place.upstream)
    for side in sides:
        before = side.cpu()
        began = side.start()
        seconds = wait_marks(side.server, side.check) - began
        after = side.cpu()
        found = digest(side.server)
        if found != wanted:
            raise RuntimeError(f"{side.name}: {found} instead of {wanted} (rows, checksum)")
        if warm:
            continue
        used = {k: round(after[k] - before[k], 2) for k in after}
        rate = item.rows / seconds
        side.runs.append({"rows_per_s": rate, "seconds": seconds, "cpu_s": used})
        print(f"{item.name} {side.name}: {rate:,.0f} rows/s in {seconds:.2f} s, cpu {used}")
