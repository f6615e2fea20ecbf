"""Which capture has which upstream: ``plan(members, upstreams, …) -> PlacementPlan``, pure.

An upstream is placed as a whole: its puller, its log and the changefeeds that read it stay
together, so nothing of a change crosses a network. A move costs about what a failover costs, as the
log is made anew where the upstream goes: so nothing moves without a reason, and evenness alone must
be wanting for long.

That no two captures ever have an upstream at once does not rest on this: whoever has one holds its
key under its lease (``cdc.server.pullers``), and nobody else begins before that key is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum


class PlacementReason(StrEnum):
    """Why an upstream is where it is."""

    NEW = "new"
    ASKED = "asked"
    LOST = "lost"
    DRAINED = "drained"
    LOG = "log"
    UNEVEN = "uneven"


class KeptRows(IntEnum):
    """What a capture has of rows that were there before a changefeed, in its data directory.

    ``READ``: if they are lost, they are read again. ``DELIVERED``: a part of them is delivered, so
    that a changefeed that loses the others fails for good.
    """

    NONE = 0
    READ = 1
    DELIVERED = 2


@dataclass(frozen=True, slots=True)
class Member:
    """A capture that lives. ``logs``: the upstreams whose log, that of all positions, it has."""

    id: str
    ready: bool = True
    drained: bool = False
    logs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Placeable:
    """An upstream, and where it was placed last, if anywhere.

    ``bound``: its log cannot be made anew now, so only a capture that has it can go on. ``asked``:
    an operator has chosen the place. ``settled``: the capture of its place has taken it. ``rows``:
    what its capture alone has of rows that were there before.
    """

    name: str
    capture: str = ""
    weight: int = 1
    bound: bool = False
    asked: bool = False
    settled: bool = True
    rows: KeptRows = KeptRows.NONE


@dataclass(frozen=True, slots=True)
class Move:
    """An upstream is to be at another capture."""

    upstream: str
    capture: str
    reason: PlacementReason


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """What is to be written, and since when the captures have been uneven (None: they are not)."""

    moves: tuple[Move, ...]
    uneven_since_ms: int | None = None


def plan(
    members: Sequence[Member],
    upstreams: Sequence[Placeable],
    owner: str,
    now_ms: int,
    uneven_since_ms: int | None = None,
    *,
    even_after_ms: int = 0,
    patient: bool = False,
) -> PlacementPlan:
    """The moves that are due, in order; the same for the same arguments in whatever order.

    ``owner`` is the capture that decides, which is preferred where all else is equal. What was
    uneven for ``even_after_ms`` is evened, one upstream at a time; 0: never. ``patient``: the
    cluster has just been started, so what was lost waits for who has its log and may be on the way.
    """
    known = {m.id: m for m in members}
    if not known:
        return PlacementPlan(())
    placed = {u.name: u for u in upstreams}
    moves: list[Move] = []
    for name in sorted(placed):
        reason = _reason(placed[name], known)
        if reason is None or (
            patient and reason is PlacementReason.LOST and not _has_log(name, known)
        ):
            continue
        capture = choose(members, list(placed.values()), placed[name], owner)
        if capture != placed[name].capture:
            moves.append(Move(name, capture, reason))
            placed[name] = replace(placed[name], capture=capture, asked=False, settled=False)
    if moves or not all(u.settled or u.capture not in known for u in upstreams):
        # Whoever is about to have less, or more, is not judged yet.
        return PlacementPlan(tuple(moves), None)
    evening = _evening(members, list(placed.values()))
    if evening is None or not even_after_ms:
        return PlacementPlan((), None)
    since_ms = now_ms if uneven_since_ms is None else uneven_since_ms
    if now_ms - since_ms < even_after_ms:
        return PlacementPlan((), since_ms)
    return PlacementPlan((evening,), None)


def choose(
    members: Sequence[Member], upstreams: Sequence[Placeable], upstream: Placeable, owner: str
) -> str:
    """The capture that an upstream is best placed at, by what counts most first.

    One that is not drained; for a bound one, one that has the log. Then one that is ready, has the
    log, has the least to do, is the owner. ``members`` must not be empty.
    """
    loads = _loads(members, [u for u in upstreams if u.name != upstream.name])

    def worth(member: Member) -> tuple[bool, bool, bool, bool, int, bool, str]:
        without = upstream.name not in member.logs
        return (
            upstream.bound and without,
            member.drained,
            not member.ready,
            without,
            loads[member.id],
            member.id != owner,
            member.id,
        )

    return min(members, key=worth).id


def at_stake(members: Sequence[Member], upstreams: Sequence[Placeable]) -> set[str]:
    """Those that may have to go elsewhere: not at a capture that has their log, and is to stay."""
    logs = {m.id: m.logs for m in members if not m.drained}
    return {u.name for u in upstreams if u.name not in logs.get(u.capture, ())}


def waits_in_vain(upstream: Placeable, members: Sequence[Member]) -> bool:
    """Whether nobody has the log that an upstream is bound to."""
    known = {m.id: m for m in members}
    gone = bool(upstream.capture) and upstream.capture not in known
    return upstream.bound and gone and not _has_log(upstream.name, known)


def _reason(upstream: Placeable, known: Mapping[str, Member]) -> PlacementReason | None:
    """Why an upstream cannot stay where it is."""
    if not upstream.capture:
        return PlacementReason.NEW
    member = known.get(upstream.capture)
    if upstream.bound:
        # Drained or not: nobody else can go on. Where nobody has the log, who has it is waited for.
        if not _has_log(upstream.name, known):
            return None
        if member is None:
            return PlacementReason.LOST
        return None if upstream.name in member.logs else PlacementReason.LOG
    if member is None:
        return PlacementReason.LOST
    if (
        member.drained
        and upstream.rows is not KeptRows.DELIVERED
        and any(not m.drained for m in known.values())
    ):
        return PlacementReason.DRAINED
    return None


def _has_log(upstream: str, known: Mapping[str, Member]) -> bool:
    return any(upstream in m.logs for m in known.values())


def _loads(members: Sequence[Member], upstreams: Sequence[Placeable]) -> dict[str, int]:
    loads = {m.id: 0 for m in members}
    for upstream in upstreams:
        if upstream.capture in loads:
            loads[upstream.capture] += upstream.weight
    return loads


def _evening(members: Sequence[Member], upstreams: Sequence[Placeable]) -> Move | None:
    """The move that makes captures most even, if one does; what was asked for stays."""
    able = [m for m in members if m.ready and not m.drained]
    if len(able) < 2:
        return None
    loads = _loads(able, upstreams)
    least = min(able, key=lambda m: (loads[m.id], m.id)).id
    best: tuple[int, str] | None = None
    for upstream in upstreams:
        stays = upstream.bound or upstream.asked or upstream.rows is not KeptRows.NONE
        if stays or upstream.capture not in loads:
            continue
        gap = loads[upstream.capture] - loads[least]
        # Where it is no less uneven behind the move, it would come back.
        after = abs(gap - 2 * upstream.weight)
        if after < gap and (best is None or (after - gap, upstream.name) < best):
            best = (after - gap, upstream.name)
    return None if best is None else Move(best[1], least, PlacementReason.UNEVEN)
