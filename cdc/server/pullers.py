"""The pullers of a capture: a thread for each log, held by a key of the store while it is ours."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from cdc.base.clock import Clock
from cdc.base.parts import Parts
from cdc.base.ts import Ts
from cdc.changelog import origin
from cdc.coord.anchors import Anchors
from cdc.coord.contract import (
    Delete,
    Held,
    LeaseExpired,
    Put,
    Store,
    Unchanged,
    WatchCompacted,
)
from cdc.coord.keys import Keys, last
from cdc.coord.messages import UpstreamInfo, UpstreamPlacement, UpstreamStatus
from cdc.coord.stored import read, readable
from cdc.server import log_folders, membership
from cdc.server.cluster_replacement import ClusterReplacement, NodeLogGone
from cdc.server.left_logs import LeftLogs
from cdc.server.log_replacement import LogReplacement
from cdc.server.log_source import LogSource, OnStatus
from cdc.server.needed import Needed
from cdc.server.nodes import CLUSTER, is_node, upstream_of, with_nodes
from cdc.server.registered import Registered
from cdc.server.supervised_puller import SupervisedPuller
from cdc.server.upstream_access import access
from cdc.server.upstream_errors import UpstreamLogNotReady
from cdc.source.anchor_place import WhenPrepared
from cdc.source.anchoring import Anchoring

_log = logging.getLogger("upstream")

_CLAIM_S = 1.0
# A puller that is told to end, or has said that it does, is waited for so long.
_END_S = 10.0
# How often a node's thread looks whether its upstream is claimed, which takes a moment.
_CLAIMED_S = 0.02


class Observer(Protocol):
    """Who is told how upstreams fare."""

    def observe_upstream(self, name: str, status: UpstreamStatus) -> None:
        """A puller has said something."""

    def forget_upstream(self, name: str) -> None:
        """The upstream was removed."""


class PlacedDelivery(Protocol):
    """Who delivers what is placed at this capture."""

    def begins(self, upstream: str) -> None:
        """The upstream is ours now; its log is about to be pulled."""

    def ends(self, upstream: str, held: Held) -> None:
        """Deliver nothing of it any more; returns when that is so, or was waited for long enough.

        ``held`` guards it still.
        """


class Pullers:
    """Pulls what is registered, or what of it is placed here.

    ``folder`` names the folder of an upstream's change log. Each puller holds a key under the
    capture's lease, so that exactly one capture pulls a node. With a ``delivery`` only what is
    placed at this capture is pulled, and what is placed elsewhere is let go; else all is.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        capture_id: str,
        lease: int,
        source: LogSource,
        folder: Callable[[str], Path],
        clock: Clock,
        observer: Observer,
        parts: Parts,
        registered: Registered,
        replacement: LogReplacement,
        delivery: PlacedDelivery | None = None,
    ) -> None:
        self._delivery = delivery
        # By upstream or node the token of its key, while that is ours.
        self._claims: dict[str, int] = {}
        # Upstreams that are to be pulled here.
        self._wanted: frozenset[str] = frozenset()
        # What is about to be let go: nothing is begun with it any more.
        self._leaving: set[str] = set()
        self._store = store
        self._keys = keys
        self._capture = capture_id
        self._lease = lease
        self._source = source
        self._folder = folder
        self._clock = clock
        self._observer = observer
        self._parts = parts
        self._registered = registered
        self._replacement = replacement
        self._clusters = ClusterReplacement(store, keys, capture_id, source, folder, replacement)
        self._left = LeftLogs(store, keys, folder)
        self._left_before = False
        # One at a time, so that logs of a cluster are made before any of them is written.
        self._ensuring = threading.Lock()
        # By whole name those of them that are written now.
        self._written: set[str] = set()
        self._guard = threading.Lock()
        # Upstreams whose log is the one that positions belong to.
        self._ready: set[str] = set()
        self._pullers: dict[str, SupervisedPuller] = {}
        # Up to which ts logs of nodes are not needed any more, by "upstream.node".
        self._behind_merged: dict[str, Ts] = {}
        self._stop = threading.Event()
        self._watch = store.watch(keys.upstream_prefix, store.revision() + 1)
        self._part = self._parts.make("upstreams", self._look_on, self._stop)

    def start(self) -> None:
        """Begin to pull what is registered."""
        self._part.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop all pullers."""
        self._stop.set()
        self._watch.close()
        self._part.join(timeout_s)
        for puller in self._pullers.values():
            puller.halt()
        for puller in self._pullers.values():
            puller.part.join(timeout_s)

    def log_folder(self, name: str) -> Path:
        """Where the change log of an upstream lies. Raises UpstreamLogNotReady."""
        if name not in self._ready:
            raise UpstreamLogNotReady(
                "its change log is being looked for, or made anew",
                object=f"upstream {name}",
                hint="try again in a moment; cdc cli upstream query shows what it waits for",
            )
        return self._folder(name)

    def log_stands(self, name: str) -> None:
        """The log of an upstream, or node, was made here just now, and may be read."""
        self._ready.add(name)

    def log_is_gone(self, name: str) -> None:
        """It may not: it was not made after all."""
        self._ready.discard(name)

    def claims(self) -> dict[str, Held]:
        """By upstream what guards all that is written of it here; not of those that are leaving."""
        return {
            name: Held(self._keys.puller(name), token)
            for name, token in dict(self._claims).items()
            if name not in self._leaving
        }

    def counts(self) -> dict[str, int]:
        """How many upstreams are held here, are coming, and are leaving, as of the last look."""
        claimed = {name for name in dict(self._claims) if not is_node(name)}
        leaving = claimed & (self._leaving | (claimed - self._wanted))
        return {
            "held": len(claimed - leaving),
            "coming": len(self._wanted - claimed),
            "leaving": len(leaving),
        }

    def handed_over(self) -> bool:
        """Whether nothing is here that another capture could take over."""
        return not {info.name for info in self._registered.all()} & self._claims.keys()

    def make_log_anew(self, name: str) -> None:
        """Have an upstream that is placed here begun anew with another log; the others go on.

        Returns before it is.
        """
        self.disown_log(name)
        self._begin_anew(name)

    def _begin_anew(self, name: str) -> None:
        self._leaving.add(name)
        self._ready.discard(name)

    def disown_log(self, name: str) -> None:
        """Positions do not lie in our log where their ts says: the next capture makes it anew."""
        there = origin.load(self._folder(name))
        if there is not None:
            Anchors(self._store, self._keys, name).disown(there.log, self._capture)

    def revive(self, name: str) -> None:
        """Start pullers anew that an error has ended; nothing happens if they run."""
        with self._guard:
            for info in with_nodes(self._registered.info(name)):
                puller = self._pullers.get(info.name)
                if puller is None:
                    continue
                if puller.failed:
                    puller.part.join(_END_S)
                if puller.part.over:
                    self._start_anew(info)

    def end(self, name: str) -> None:
        """Pull an upstream, or node, no longer; from then on another capture can have it."""
        self._ready.discard(name)
        puller = self._pullers.get(name)
        if puller is not None:
            puller.halt()
            puller.part.join(_END_S)
            # From now on another capture can have it; if that cannot be written it is tried again.
            held = Held(self._keys.puller(name), self._claims.get(name, 0))
            self._store.txn([held], [Delete(held.key)])
            self._pullers.pop(name, None)
            self._claims.pop(name, None)
            self._parts.forget(puller.part)

    def _start_anew(self, info: UpstreamInfo) -> None:
        if self._stop.is_set():
            return
        fresh = self._supervised(info)
        known = self._registered.status(info.name)
        # Before it runs, so that nobody takes the old error for a new one.
        fresh.tell(known.model_copy(update={"state": "starting", "error": None}))
        self._pullers[info.name] = fresh
        fresh.part.start()

    def _renew(self, info: UpstreamInfo) -> None:
        """Have the puller of an upstream, or node, connect as ``info`` says."""
        with self._guard:
            puller = self._pullers.get(info.name)
            if puller is None or access(puller.info) == access(info):
                return
            if not puller.renew(info):
                self._start_anew(info)

    def needed(self, name: str) -> Needed:
        """What changefeeds need of an upstream's log, or of a node what the log of all needs."""
        if is_node(name):
            anchor_ts = None
            info = self._registered.info(upstream_of(name))
            if info.nodes:
                anchor_ts = self._clusters.anchored_ts(info, name.partition(".")[2])
            return Needed(self._behind_merged.get(name, 0), (), anchor_ts)
        return self._registered.needed(name)

    def _look_on(self) -> bool:
        here = self._here()
        if here is not None and not self._left_before:
            # What was placed here when this capture was killed may have gone elsewhere since.
            self._left.find(one.name for one in self._registered.all() if one.name not in here)
            self._left_before = True
        # Nodes come before the log of all of them.
        known = [one for one in self._registered.all() if here is None or one.name in here]
        self._wanted = frozenset(one.name for one in known)
        wanted = {i.name: i for one in known for i in reversed(with_nodes(one))}
        for name, info in wanted.items():
            if self._stop.is_set():
                break
            if name in self._pullers:
                self._renew(info)
            else:
                self._begin(info, here)
        kept = set(self._registered.unreadable())
        if here is not None:
            kept &= here.keys()
        # Who writes the log of all before those whose logs it reads.
        gone = [
            name
            for name in self._pullers
            if upstream_of(name) in self._leaving
            or (name not in wanted and upstream_of(name) not in kept)
        ]
        for name in dict.fromkeys(map(upstream_of, gone)):
            # Of one that stays only a node has left.
            if name not in wanted or name in self._leaving:
                self._leave(name)
        for name in reversed(gone):
            self.end(name)
            if here is not None:
                # Whoever has it now says how it fares.
                self._observer.forget_upstream(name)
                if name not in wanted and not is_node(name):
                    self._left.add(name)
        if here is not None:
            self._left.tidy(here)
        self._leaving.difference_update(map(upstream_of, gone))
        self._part.well()
        leaving = [one for one in known if any(node.ends_ts for node in one.nodes)]
        for one in leaving:
            self._let_go(one)
        # One whose puller's key is somebody else's still is tried again.
        calm = not leaving and not self._left and wanted.keys() <= self._pullers.keys()
        self._wait(None if calm else _CLAIM_S)
        return True

    def _wait(self, timeout_s: float | None) -> None:
        """Wait until there is news of upstreams, of which the words of pullers are none."""
        while not self._stop.is_set():
            try:
                events = self._watch.next(timeout_s or _CLAIM_S)
            except WatchCompacted:
                start = self._store.revision() + 1
                self._watch = self._store.watch(self._keys.upstream_prefix, start)
                return
            told = self._keys.upstream_status_prefix
            news = self._leaving or any(not e.key.startswith(told) for e in events)
            if timeout_s is not None or news:
                return

    def _here(self) -> dict[str, Unchanged] | None:
        """What is placed at this capture, each with what says so; None if all is here."""
        if self._delivery is None:
            return None
        entries = self._store.range(self._keys.placement_prefix)[1]
        return {
            last(e.key): Unchanged(e.key, e.mod_revision)
            for e, placed in readable(entries, UpstreamPlacement)
            if placed.capture == self._capture
        }

    def _leave(self, upstream: str) -> None:
        """Let another capture have an upstream: first of all nothing of it is delivered here."""
        if self._delivery is None or upstream not in self._claims:
            return
        held = Held(self._keys.puller(upstream), self._claims[upstream])
        self._leaving.add(upstream)
        self._ready.discard(upstream)
        self._delivery.ends(upstream, held)

    def _begin(self, info: UpstreamInfo, here: Mapping[str, Unchanged] | None) -> None:
        if any(node.name not in self._pullers for node in info.nodes):
            # Somebody else's still: what they write is not here.
            return
        upstream = upstream_of(info.name)
        key = self._keys.puller(info.name)
        put = Put(key, self._capture.encode(), self._lease)
        entry = self._store.get(self._keys.upstream_info(upstream))
        if entry is None:
            return
        # The registration may have been killed behind its entry in the store. Whatever can fail
        # comes before the claim: one that is made and not followed would keep everybody out.
        log_folders.complete(self._folder(upstream).parent)
        compares = [Unchanged(key, 0), Unchanged(entry.key, entry.mod_revision)]
        if here is not None:
            compares.append(here[upstream])
        claim = self._store.get(key)
        if claim is None:
            try:
                if not self._store.txn(compares, [put]):
                    return
            except LeaseExpired:
                return
            claim = self._store.get(key)
        # One that is ours was claimed by a turn that failed behind it.
        if claim is None or claim.lease != self._lease or claim.value != put.value:
            return
        if self._delivery is not None and info.name == upstream:
            self._delivery.begins(upstream)
        self._claims[info.name] = claim.create_revision
        puller = self._supervised(info)
        self._pullers[info.name] = puller
        puller.part.start()

    def _ensured(self, info: UpstreamInfo, stop: threading.Event) -> Anchoring | None:
        """Have the upstream's log there, for all who read it; None if it was stopped meanwhile."""
        held = Held(self._keys.puller(info.name), self._claims.get(info.name, 0))
        try:
            node = is_node(info.name)
            upstream = self._registered.info(upstream_of(info.name)) if node else info
            if upstream.nodes:
                if not self._ensured_cluster(upstream, info.name, stop):
                    return None
                anchors, current = self._clusters.current(info.name)
            else:
                anchors, current = self._replacement.ensure(info, [held])
        except BaseException:
            self._ready.discard(info.name)
            raise
        if self._delivery is not None and not node:
            self._left.note(info.name, current.mod_revision)
        self._ready.add(info.name)
        if upstream.kind == CLUSTER:
            prepared = WhenPrepared.NOT_NEEDED
        else:
            maria = info.server_kind == "mariadb"
            prepared = WhenPrepared.WAIT if maria else WhenPrepared.BY_GTIDS
        return Anchoring(self._folder(info.name), anchors, [current, held], self._capture, prepared)

    def _ensured_cluster(self, info: UpstreamInfo, name: str, stop: threading.Event) -> bool:
        """Have all logs of a cluster there, once all its keys are ours; False if stopped before.

        From then on that of ``name`` is written.
        """
        while info.name not in self._claims:
            if stop.wait(_CLAIMED_S):
                return False
        held = Held(self._keys.puller(info.name), self._claims[info.name])
        with self._ensuring:
            written = {one.name for one in with_nodes(info)} & self._written
            try:
                self._clusters.ensure(info, [held], used=bool(written))
            except NodeLogGone:
                self._begin_anew(info.name)
                raise
            self._written.add(name)
        return True

    def _supervised(self, info: UpstreamInfo) -> SupervisedPuller:
        return SupervisedPuller(info, self._write, self._tell, self._clock, self._parts)

    def _write(self, info: UpstreamInfo, say: OnStatus, stop: threading.Event) -> None:
        """Write the log of an upstream, or node, until stopped."""
        anchoring = self._ensured(info, stop)
        if anchoring is None:
            return
        folder, needed = self._folder(info.name), partial(self.needed, info.name)
        try:
            if info.nodes:
                self._merge(info, say, stop, anchoring)
            else:
                self._source.pull(info, folder, say, needed, stop, anchoring)
        finally:
            self._written.discard(info.name)

    def _tell(self, name: str, status: UpstreamStatus) -> None:
        """Write a status to the metrics and the store, while the upstream is registered."""
        entry = self._store.get(self._keys.upstream_info(upstream_of(name)))
        if entry is None:
            return
        self._observer.observe_upstream(name, status)
        put = Put(self._keys.upstream_status(name), status.model_dump_json().encode())
        # What is said of it by whoever had it before does not count.
        held = Held(self._keys.puller(name), self._claims.get(name, 0))
        same = Unchanged(entry.key, entry.mod_revision)
        self._store.txn([held, same], [put], durable=False)

    def _merge(
        self, info: UpstreamInfo, say: OnStatus, stop: threading.Event, anchoring: Anchoring
    ) -> None:
        """Write the log of all nodes until stopped."""

        def keep(behind: Mapping[str, Ts]) -> None:
            self._behind_merged |= {f"{info.name}.{node}": ts for node, ts in behind.items()}

        def statuses() -> dict[str, UpstreamStatus]:
            pullers = {node.node_name: self._pullers.get(node.name) for node in info.nodes}
            return {n: p.last if p is not None else UpstreamStatus() for n, p in pullers.items()}

        folder, needed = self._folder(info.name), partial(self.needed, info.name)
        self._source.merge(info, folder, say, needed, stop, keep, statuses, anchoring)

    def _let_go(self, info: UpstreamInfo) -> None:
        """Forget nodes that leave and are merged up to their end, as the log of all nodes says."""
        entry = self._store.get(self._keys.upstream_info(info.name))
        merged = self._registered.status(info.name).position.get("nodes", {})
        gone = membership.gone(info, merged)
        if entry is None or not gone or info.name not in self._pullers:
            return
        put = Put(entry.key, membership.without(info, gone).model_dump_json().encode())
        statuses = [Delete(self._keys.upstream_status(node)) for node in gone]
        if read(entry, UpstreamInfo) != info or not self._store.txn(
            [Unchanged(entry.key, entry.mod_revision)], [put, *statuses]
        ):
            return
        for node in gone:
            self.end(node)
            self._observer.forget_upstream(node)
            Anchors(self._store, self._keys, node).clear()
            _log.info("upstream %s: node %s has left", info.name, node)
