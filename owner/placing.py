"""The owner's word on which capture has which upstream: seen in the store, decided, written.

Nothing else is done here. Whoever has an upstream that is placed elsewhere lets go of it by itself,
and whoever it is placed at takes it when it is free (``cdc.server.pullers``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from cdc.base.clock import Clock
from cdc.base.errors import InvalidError
from cdc.base.parts import Parts
from cdc.base.ts import MAX_TS
from cdc.coord import election
from cdc.coord.contract import Delete, Held, Op, Put, Store, StoredKey, Unchanged, WatchCompacted
from cdc.coord.draining import CaptureNotFound
from cdc.coord.keys import Keys, last
from cdc.coord.log_begin import could_begin, needed_ts
from cdc.coord.messages import (
    ENDED,
    CaptureInfo,
    CurrentLog,
    FeedInfo,
    FeedState,
    UpstreamInfo,
    UpstreamPlacement,
)
from cdc.coord.stored import StoredValueUnreadable, read, readable
from cdc.snapshot.log import SnapshotLost
from owner.placement import (
    KeptRows,
    Member,
    Move,
    Placeable,
    PlacementPlan,
    PlacementReason,
    at_stake,
    choose,
    plan,
    waits_in_vain,
)

_log = logging.getLogger("owner")
_LOOK_S = 1.0
_BY_CHOICE = frozenset({PlacementReason.DRAINED, PlacementReason.UNEVEN})


class PlacementRefused(InvalidError):
    """An upstream cannot be placed there."""

    code = "TG:ErrPlacementRefused"


def placements(store: Store, keys: Keys) -> dict[str, UpstreamPlacement]:
    """Where each upstream was placed, by name; one that cannot be read was not."""
    entries = store.range(keys.placement_prefix)[1]
    return {last(e.key): placed for e, placed in readable(entries, UpstreamPlacement)}


def of(store: Store, keys: Keys, upstream: str) -> tuple[UpstreamPlacement | None, int]:
    """Where an upstream was placed, and the revision of that; 0 if nowhere."""
    entry = store.get(keys.placement(upstream))
    if entry is None:
        return None, 0
    with suppress(StoredValueUnreadable):
        return read(entry, UpstreamPlacement), entry.mod_revision
    return None, entry.mod_revision


def look(store: Store, keys: Keys) -> tuple[list[Member], list[Placeable]]:
    """The captures that live, and the upstreams that are registered, as ``plan`` wants them.

    What is dear to know is not among it: :func:`with_rows`, :func:`with_bound`.
    """
    current = {
        last(e.key): log for e, log in readable(store.range(keys.current_log_prefix)[1], CurrentLog)
    }
    drained = election.all_drained(store, keys)
    members = [
        Member(
            info.id,
            info.ready,
            info.id in drained,
            frozenset(
                name
                for name, log in current.items()
                if log.capture == info.id or info.logs.get(name) == log.log
            ),
        )
        for _, info in readable(store.range(keys.capture_prefix)[1], CaptureInfo)
    ]
    held = {last(e.key): e.value.decode() for e in store.range(keys.puller_prefix)[1]}
    placed = placements(store, keys)
    found = store.range(keys.upstream_info_prefix)[1]
    return members, [_placeable(e, placed.get(last(e.key)), held) for e in found]


def with_rows(store: Store, keys: Keys, upstreams: Sequence[Placeable]) -> list[Placeable]:
    """With what their captures have of rows of changefeeds that are not all delivered."""
    kept: dict[str, KeptRows] = {}
    for _, info in readable(store.range(keys.feed_info_prefix)[1], FeedInfo):
        kept[info.upstream] = max(_kept_rows(info), kept.get(info.upstream, KeptRows.NONE))
    return [replace(u, rows=kept.get(u.name, KeptRows.NONE)) for u in upstreams]


def _kept_rows(info: FeedInfo) -> KeptRows:
    lost = info.error is not None and info.error.code == SnapshotLost.code
    if info.state in ENDED or (info.state is FeedState.FAILED and lost):
        return KeptRows.NONE
    if info.snapshot_ts and not info.rows_delivered:
        return KeptRows.DELIVERED
    return KeptRows.READ if info.copies or info.piece is not None else KeptRows.NONE


def _placeable(
    entry: StoredKey, placed: UpstreamPlacement | None, held: dict[str, str]
) -> Placeable:
    name, nodes = last(entry.key), 0
    with suppress(StoredValueUnreadable):
        nodes = len(read(entry, UpstreamInfo).nodes)
    if placed is None:
        return Placeable(name, weight=max(1, nodes), settled=False)
    return Placeable(
        name,
        placed.capture,
        weight=max(1, nodes),
        asked=placed.reason == PlacementReason.ASKED,
        settled=held.get(name) == placed.capture,
    )


def with_bound(
    store: Store, keys: Keys, upstreams: Sequence[Placeable], names: Collection[str]
) -> list[Placeable]:
    """With whether these are bound to their logs; the anchors of no others are read."""
    if not names:
        return list(upstreams)
    entries = [e for name in names if (e := store.get(keys.upstream_info(name))) is not None]
    bound = bound_ones(store, keys, [info for _, info in readable(entries, UpstreamInfo)])
    return [replace(u, bound=u.name in bound) if u.name in names else u for u in upstreams]


def bound_ones(store: Store, keys: Keys, upstreams: Sequence[UpstreamInfo]) -> set[str]:
    """Those whose logs could not begin anew below all that is needed of them.

    A node has left above a checkpoint, say, or a changefeed begins below all anchors.
    """
    needed = needed_ts(store, keys)
    return {
        info.name
        for info in upstreams
        if not could_begin(store, keys, info, needed.get(info.name, MAX_TS))
    }


def best(store: Store, keys: Keys, here: str) -> str:
    """The capture that a new upstream is best registered at; ``here`` where all else is equal."""
    members, upstreams = look(store, keys)
    return choose(members, upstreams, Placeable(""), here) if members else here


def move(store: Store, keys: Keys, upstream: str, capture: str, clock: Clock) -> UpstreamPlacement:
    """Place an upstream as an operator says. Returns before it is there.

    Raises CaptureNotFound, PlacementRefused.
    """
    members, upstreams = look(store, keys)
    about = f"upstream {upstream}"
    known = next((m for m in members if m.id == capture), None)
    if known is None:
        raise CaptureNotFound.of(capture)
    if known.drained:
        raise PlacementRefused(
            "the capture was told to own nothing",
            object=about,
            hint="choose another one, or start that one anew",
        )
    upstreams = with_bound(store, keys, upstreams, {upstream})
    found = next((u for u in upstreams if u.name == upstream), None)
    if found is not None and found.bound and upstream not in known.logs:
        raise PlacementRefused(
            "another log could not begin low enough for all its changefeeds, and that capture does"
            " not have the log",
            object=about,
            hint="wait until the changefeed that is furthest behind has caught up, or remove it",
        )
    if found is not None and found.capture != capture:
        (found,) = with_rows(store, keys, [found])
        if found.rows is KeptRows.DELIVERED:
            raise PlacementRefused(
                "a changefeed delivers rows that were there before it, which only its capture has",
                object=about,
                hint="wait until `changefeed query` shows its snapshot as delivered",
            )
    placed, revision = of(store, keys, upstream)
    made = _after(placed, Move(upstream, capture, PlacementReason.ASKED), clock)
    if placed is not None and placed.capture == capture and placed.reason == made.reason:
        return placed
    put = Put(keys.placement(upstream), made.model_dump_json().encode())
    entry = store.get(keys.upstream_info(upstream))
    registered = Unchanged(keys.upstream_info(upstream), entry.mod_revision if entry else -1)
    if not store.txn([registered, Unchanged(put.key, revision)], [put]):
        raise PlacementRefused(
            "it is being moved or changed by somebody else", object=about, hint="look at it again"
        )
    return made


def _after(placed: UpstreamPlacement | None, move: Move, clock: Clock) -> UpstreamPlacement:
    return UpstreamPlacement(
        upstream=move.upstream,
        capture=move.capture,
        number=placed.number + 1 if placed is not None else 1,
        reason=str(move.reason),
        time_ms=clock.now_ms(),
    )


class Placing:
    """Decides while this capture is the owner; ``token`` is the create revision of its key.

    ``lost`` says whether the process is about to end. ``even_after_s``: how long captures must have
    been uneven before an upstream is moved for that; 0: it never is. ``patience_s``: for so long it
    waits for captures of a cluster that was started just now.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        capture: str,
        token: int,
        clock: Clock,
        parts: Parts,
        even_after_s: float,
        patience_s: float = 0.0,
        lost: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._keys = keys
        self._capture = capture
        self._held = Held(keys.owner, token)
        self._clock = clock
        self._even_after_ms = round(even_after_s * 1000)
        self._lost = lost
        self._uneven_since_ms: int | None = None
        self._waiting: set[str] = set()
        self._began_s = clock.monotonic()
        self._patience_s = patience_s
        self._stop = threading.Event()
        self._watch = store.watch(keys.capture_prefix, store.revision() + 1)
        self._part = parts.make("placing", self._look_on, self._stop)

    def start(self) -> None:
        """Begin to place."""
        self._part.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Place nothing any more."""
        self._stop.set()
        self._watch.close()
        self._part.join(timeout_s)

    def _look_on(self) -> bool:
        if not self._lost():
            self.turn()
        self._part.well()
        try:
            self._watch.next(_LOOK_S)
        except WatchCompacted:
            start = self._store.revision() + 1
            self._watch = self._store.watch(self._keys.capture_prefix, start)
        return True

    def turn(self) -> None:
        """Look once, and write what is due."""
        members, upstreams = look(self._store, self._keys)
        stake = at_stake(members, upstreams)
        upstreams = with_bound(self._store, self._keys, upstreams, stake)
        found = self._due(members, upstreams, stake)
        self._uneven_since_ms = found.uneven_since_ms
        self._warn_of({u.name for u in upstreams if waits_in_vain(u, members)})
        for one in found.moves:
            self._write(one)
        known = {u.name for u in upstreams}
        for entry in self._store.range(self._keys.placement_prefix)[1]:
            if last(entry.key) not in known:
                info = self._keys.upstream_info(last(entry.key))
                gone: list[Op] = [Delete(entry.key)]
                same = Unchanged(entry.key, entry.mod_revision)
                self._store.txn([self._held, same, Unchanged(info, 0)], gone)

    def _due(
        self, members: Sequence[Member], upstreams: Sequence[Placeable], asked: Collection[str]
    ) -> PlacementPlan:
        """What is due; ``asked``: of which upstreams it is known whether they are bound.

        All changefeeds, and anchors, are only read where it matters.
        """
        found = self._plan(members, upstreams)
        if all(move.reason not in _BY_CHOICE for move in found.moves):
            return found
        upstreams, asked = with_rows(self._store, self._keys, upstreams), set(asked)
        found = self._plan(members, upstreams)
        while new := {move.upstream for move in found.moves} - asked:
            asked |= new
            upstreams = with_bound(self._store, self._keys, upstreams, new)
            found = self._plan(members, upstreams)
        return found

    def _warn_of(self, waiting: set[str]) -> None:
        for name in sorted(waiting - self._waiting):
            _log.warning(
                "upstream %s: its capture is gone, and another log could not begin low enough for"
                " all its changefeeds: start the capture with its data, or resume the one that is"
                " furthest behind with --overwrite-checkpoint-ts",
                name,
            )
        self._waiting = waiting

    def _plan(self, members: Sequence[Member], upstreams: Sequence[Placeable]) -> PlacementPlan:
        return plan(
            members,
            upstreams,
            self._capture,
            self._clock.now_ms(),
            self._uneven_since_ms,
            even_after_ms=self._even_after_ms,
            patient=self._patient(),
        )

    def _patient(self) -> bool:
        """Whether all captures that there are have just begun, as this owner has."""
        if self._clock.monotonic() - self._began_s >= self._patience_s:
            return False
        young_ms = self._clock.now_ms() - round(self._patience_s * 1000)
        infos = readable(self._store.range(self._keys.capture_prefix)[1], CaptureInfo)
        return all(info.start_time_ms > young_ms for _, info in infos)

    def _write(self, one: Move) -> None:
        """What was changed meanwhile is looked at again by the next turn."""
        placed, revision = of(self._store, self._keys, one.upstream)
        entry = self._store.get(self._keys.upstream_info(one.upstream))
        if entry is None:
            return
        put = Put(
            self._keys.placement(one.upstream),
            _after(placed, one, self._clock).model_dump_json().encode(),
        )
        same = [Unchanged(put.key, revision), Unchanged(entry.key, entry.mod_revision)]
        if self._store.txn([self._held, *same], [put]):
            _log.info(
                "upstream %s: placed at capture %s (%s)", one.upstream, one.capture, one.reason
            )
