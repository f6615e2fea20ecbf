"""The owner's word on which capture has which upstream: seen in the store, decided, written.

Nothing else is done here. Whoever has an upstream that is placed elsewhere lets go of it by itself,
and whoever it is placed at takes it when it is free (``cdc.server.pullers``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from cdc.base.clock import Clock
from cdc.base.errors import InvalidError
from cdc.base.parts import Parts
from cdc.coord import election
from cdc.coord.contract import Delete, Held, Op, Put, Store, StoredKey, Unchanged, WatchCompacted
from cdc.coord.draining import CaptureNotFound
from cdc.coord.keys import Keys, last
from cdc.coord.messages import (
    CaptureInfo,
    CurrentLog,
    FeedInfo,
    FeedState,
    UpstreamInfo,
    UpstreamPlacement,
)
from cdc.coord.stored import StoredValueUnreadable, read, readable
from owner.placement import (
    KeptRows,
    Member,
    Move,
    Placeable,
    PlacementPlan,
    PlacementReason,
    choose,
    plan,
)

_log = logging.getLogger("owner")
_LOOK_S = 1.0
_BY_CHOICE = frozenset({PlacementReason.DRAINED, PlacementReason.UNEVEN})
_OVER = frozenset({FeedState.FINISHED, FeedState.REMOVED})
_ROWS_LOST = "TG:ErrSnapshotLost"


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
    """The captures that live, and the upstreams that are registered, as ``plan`` wants them."""
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
    lost = info.error is not None and info.error.code == _ROWS_LOST
    if info.state in _OVER or (info.state is FeedState.FAILED and lost):
        return KeptRows.NONE
    if info.snapshot_ts and not info.rows_delivered:
        return KeptRows.DELIVERED
    return KeptRows.READ if info.copies or info.piece is not None else KeptRows.NONE


def _placeable(
    entry: StoredKey, placed: UpstreamPlacement | None, held: dict[str, str]
) -> Placeable:
    name, nodes, bound = last(entry.key), 0, False
    with suppress(StoredValueUnreadable):
        info = read(entry, UpstreamInfo)
        nodes, bound = len(info.nodes), not info.replaceable
    if placed is None:
        return Placeable(name, weight=max(1, nodes), bound=bound, settled=False)
    return Placeable(
        name,
        placed.capture,
        weight=max(1, nodes),
        bound=bound,
        asked=placed.reason == PlacementReason.ASKED,
        settled=held.get(name) == placed.capture,
    )


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
        raise CaptureNotFound(
            "there is no such capture",
            object=f"capture {capture}",
            hint="cdc cli capture list shows those that run",
        )
    if known.drained:
        raise PlacementRefused(
            "the capture was told to own nothing",
            object=about,
            hint="choose another one, or start that one anew",
        )
    found = next((u for u in upstreams if u.name == upstream), None)
    if found is not None and found.bound and upstream not in known.logs:
        raise PlacementRefused(
            "the log of shards cannot be made anew, and that capture does not have it",
            object=about,
            hint="it stays where its log is",
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
        found = self._plan(members, upstreams)
        if any(move.reason in _BY_CHOICE for move in found.moves):
            # All changefeeds are only read where it matters.
            found = self._plan(members, with_rows(self._store, self._keys, upstreams))
        self._uneven_since_ms = found.uneven_since_ms
        for one in found.moves:
            self._write(one)
        known = {u.name for u in upstreams}
        for entry in self._store.range(self._keys.placement_prefix)[1]:
            if last(entry.key) not in known:
                info = self._keys.upstream_info(last(entry.key))
                gone: list[Op] = [Delete(entry.key)]
                same = Unchanged(entry.key, entry.mod_revision)
                self._store.txn([self._held, same, Unchanged(info, 0)], gone)

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
