"""The upstreams of a capture: registered, listed, removed; one puller thread for each."""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from cdc.base.clock import Clock
from cdc.base.parts import Parts
from cdc.base.ts import MAX_TS, Ts
from cdc.changelog import origin
from cdc.coord.anchors import Anchors
from cdc.coord.contract import (
    Delete,
    Held,
    LeaseExpired,
    Put,
    Store,
    StoredKey,
    Unchanged,
    WatchCompacted,
)
from cdc.coord.expected import Expected, check
from cdc.coord.keys import Keys, last
from cdc.coord.messages import (
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    UpstreamInfo,
    UpstreamPlacement,
    UpstreamStatus,
)
from cdc.coord.names import UPSTREAM_NAME
from cdc.coord.stored import StoredValueUnreadable, read, readable
from cdc.schema.snapshot import Schema, Wanted
from cdc.server import log_folders, membership
from cdc.server.log_replacement import LogReplacement
from cdc.server.log_source import LogSource, OnStatus
from cdc.server.needed import Needed
from cdc.server.nodes import (
    CLUSTER,
    DEFAULT_CARRIER,
    NewNode,
    asked_nodes,
    check_nodes,
    check_server,
    is_node,
    node_findings,
    register_nodes,
    upstream_of,
)
from cdc.server.supervised_puller import SupervisedPuller
from cdc.server.upstream_access import NewAccess, access, changed
from cdc.server.upstream_errors import (
    UpstreamChanging,
    UpstreamExists,
    UpstreamInUse,
    UpstreamLogNotReady,
    UpstreamNameInvalid,
    UpstreamNotFound,
)
from cdc.source.anchoring import Anchoring
from owner import placing
from owner.placement import PlacementReason

_log = logging.getLogger("upstream")

_CLAIM_S = 1.0
_NEEDS_NOTHING = frozenset({FeedState.FINISHED, FeedState.REMOVED})


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


class Upstreams:
    """Operations on upstreams, and the supervision of their pullers.

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
        parts: Parts | None = None,
        delivery: PlacedDelivery | None = None,
    ) -> None:
        self._delivery = delivery
        # By upstream or node the token of its key, while that is ours.
        self._claims: dict[str, int] = {}
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
        self._parts = parts or Parts()
        self._guard = threading.Lock()
        self._replacement = LogReplacement(store, keys, capture_id, source, folder)
        # Upstreams whose log is the one that positions belong to.
        self._ready: set[str] = set()
        self._pullers: dict[str, SupervisedPuller] = {}
        # Up to which ts logs of nodes are not needed any more, by "upstream.node".
        self._behind_merged: dict[str, Ts] = {}
        # Names that are being registered or removed, which takes time and not the lock.
        self._changing: set[str] = set()
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

    def all(self) -> list[UpstreamInfo]:
        """All registered upstreams that can be read, by name."""
        _, entries = self._store.range(self._keys.upstream_info_prefix)
        return [info for _, info in readable(entries, UpstreamInfo)]

    def unreadable(self) -> dict[str, StoredValueUnreadable]:
        """By name those that cannot be read; nothing is done with them, and nothing to them."""
        found = {}
        for entry in self._store.range(self._keys.upstream_info_prefix)[1]:
            try:
                read(entry, UpstreamInfo)
            except StoredValueUnreadable as e:
                found[last(entry.key)] = e
        return found

    def info(self, name: str) -> UpstreamInfo:
        """One upstream; raises :class:`UpstreamNotFound`."""
        entry = self._store.get(self._keys.upstream_info(name))
        if entry is None:
            raise UpstreamNotFound(
                "there is no such upstream",
                object=f"upstream {name}",
                hint="cdc cli upstream create registers one",
            )
        return read(entry, UpstreamInfo)

    def status(self, name: str) -> UpstreamStatus:
        """What its puller said last."""
        entry = self._store.get(self._keys.upstream_status(name))
        if entry is None:
            return UpstreamStatus()
        try:
            return read(entry, UpstreamStatus)
        except StoredValueUnreadable as e:
            # The puller writes another one soon; until then this is what is to be said.
            return UpstreamStatus(
                state="unknown", error=ErrorInfo(**e.to_dict(), time_ms=self._clock.now_ms())
            )

    def register(
        self,
        name: str,
        uri: str = "",
        *,
        kind: str = "single",
        nodes: Sequence[NewNode] = (),
        carrier: str = "",
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        start: str | None = None,
    ) -> UpstreamInfo:
        """Check a server, or each of several nodes, and begin to pull.

        ``start`` is of a node, too, that has none of its own. ``carrier`` is of kind ``cluster``.
        """
        if not re.fullmatch(UPSTREAM_NAME, name) or len(name) > 128:
            raise UpstreamNameInvalid(
                f"{name[:130]!r} is not a name of an upstream",
                hint="letters, digits, single hyphens and underscores, at most 128 characters",
            )
        check_nodes(name, kind, uri, nodes, carrier)
        asked = UpstreamInfo(
            name=name,
            uri=uri,
            kind=kind,
            carrier=carrier or (DEFAULT_CARRIER if kind == CLUSTER else ""),
            ca=ca,
            cert=cert,
            key=key,
            create_time_ms=self._clock.now_ms(),
        )
        asked = asked.model_copy(update={"nodes": asked_nodes(asked, nodes)})
        starts = [node.start or start for node in nodes] or [start]
        entry_key = self._keys.upstream_info(name)
        exists = UpstreamExists(
            "an upstream of this name is registered",
            object=f"upstream {name}",
            hint="choose another name, or remove the old one first",
        )
        with self._guard:
            if name in self._changing or self._store.get(entry_key) is not None:
                raise exists
            self._changing.add(name)
        # Not under the lock: a server that does not answer must hold up nobody else.
        try:
            info = self._make(name, asked, starts, entry_key, exists)
        finally:
            with self._guard:
                self._changing.discard(name)
        _log.info("upstream %s: registered, %s %s", name, info.server_kind, info.server_version)
        return info

    def _make(
        self,
        name: str,
        asked: UpstreamInfo,
        starts: Sequence[str | None],
        key: str,
        exists: UpstreamExists,
    ) -> UpstreamInfo:
        folder = self._folder(name)
        log_folders.make(folder.parent)
        # What an upstream of this name has left that is no more.
        for one in _pulled(asked):
            Anchors(self._store, self._keys, one.name).clear()
        try:
            if asked.nodes:
                info = register_nodes(asked, starts, self._source, self._folder)
            else:
                info = self._source.register(asked, starts[0], folder)
            value = info.model_dump_json().encode()
            # Before anybody can begin to pull it.
            for one in _pulled(info):
                there = self._folder(one.name)
                self._replacement.note(one.name, there, self._source.first_anchor(there))
            compares, puts = [Unchanged(key, 0)], [Put(key, value)]
            if self._delivery is not None:
                # Its log is here, so it begins here, wherever it goes later.
                put, revision = self._placed_here(name)
                compares.append(Unchanged(put.key, revision))
                puts.append(put)
            if not self._store.txn(compares, puts):
                raise exists
        except BaseException:
            log_folders.give_up(folder.parent)
            raise
        log_folders.complete(folder.parent)
        self._ready.add(name)
        return info

    def _placed_here(self, name: str) -> tuple[Put, int]:
        """What places a new upstream at this capture, and the revision of what it replaces."""
        placed, revision = placing.of(self._store, self._keys, name)
        made = UpstreamPlacement(
            upstream=name,
            capture=self._capture,
            number=placed.number + 1 if placed is not None else 1,
            reason=PlacementReason.NEW,
            time_ms=self._clock.now_ms(),
        )
        return Put(self._keys.placement(name), made.model_dump_json().encode()), revision

    def update(
        self,
        name: str,
        asked: NewAccess,
        nodes: Mapping[str, NewAccess] | None = None,
        expected: Expected = None,
    ) -> UpstreamInfo:
        """Reach the server, or nodes, of an upstream otherwise from now on; the log stays.

        Nothing is changed unless each is the server whose changes the log has. Pullers connect
        anew, also those that an error had ended. Raises UpstreamNotFound, UpstreamChanging,
        NodesInvalid, UpstreamUriInvalid, ChangedSince, and what ``recheck`` raises.
        """
        with self._guard:
            if name in self._changing:
                raise _changing(name)
            entry = self._store.get(self._keys.upstream_info(name))
            info = changed(self.info(name), asked, nodes)
            assert entry is not None
            check(entry, expected, f"upstream {name}")
            self._changing.add(name)
        try:
            if info.nodes:
                found = [self._source.recheck(n, self._folder(n.name)) for n in info.nodes]
                info = info.model_copy(update={"nodes": found, "findings": node_findings(found)})
            else:
                info = self._source.recheck(info, self._folder(name))
            compare, put = Unchanged(entry.key, entry.mod_revision), info.model_dump_json()
            if not self._store.txn([compare], [Put(entry.key, put.encode())]):
                raise _changing(name)
        finally:
            with self._guard:
                self._changing.discard(name)
        self.revive(name)
        _log.info("upstream %s: its access was changed", name)
        return info

    def add_node(self, name: str, asked: NewNode, expected: Expected = None) -> UpstreamInfo:
        """Have another server belong to an upstream of kind ``shards``, from its start on.

        Its log is made and pulled at once; what it holds comes into the log of all behind what
        is there. Raises what registering a node raises, UpstreamChanging, UpstreamLogNotReady.
        """
        entry, info = self._members_change(name, expected)
        try:
            node = membership.to_add(info, asked)
            there, merged = self._folder(node.name), self.log_folder(name)
            # What an attempt has left that did not come to its end: no name is given twice.
            shutil.rmtree(there, ignore_errors=True)
            Anchors(self._store, self._keys, node.name).clear()
            try:
                node = self._source.register(node, asked.start, there)
                check_server(name, info.nodes, node)
                self._source.add_node(info, merged, node.node_name, there)
                self._replacement.note(node.name, there, self._source.first_anchor(there))
                self._ready.add(node.name)
                made = membership.added(info, node)
                self._put_members(entry, made)
            except BaseException:
                self._ready.discard(node.name)
                shutil.rmtree(there, ignore_errors=True)
                raise
        finally:
            with self._guard:
                self._changing.discard(name)
        _log.info("upstream %s: node %s added", name, asked.name)
        return made

    def remove_node(self, name: str, node: str, expected: Expected = None) -> UpstreamInfo:
        """Have a server belong to an upstream no longer, behind what is pulled of it by now.

        Raises NodesInvalid, UpstreamChanging.
        """
        entry, info = self._members_change(name, expected)
        try:
            merged = self.status(name).position.get("nodes", {})
            end = self.status(f"{name}.{node}").resolved_ts
            made = membership.leaving(info, node, end if node in merged else 0)
            self._put_members(entry, made)
        finally:
            with self._guard:
                self._changing.discard(name)
        _log.info("upstream %s: node %s leaves behind ts %d", name, node, end)
        return made

    def _members_change(self, name: str, expected: Expected) -> tuple[StoredKey, UpstreamInfo]:
        with self._guard:
            info = self.info(name)
            entry = self._store.get(self._keys.upstream_info(name))
            if name in self._changing or entry is None:
                raise _changing(name)
            check(entry, expected, f"upstream {name}")
            self._changing.add(name)
        return entry, info

    def _put_members(self, entry: StoredKey, info: UpstreamInfo) -> None:
        compare, put = Unchanged(entry.key, entry.mod_revision), info.model_dump_json()
        if not self._store.txn([compare], [Put(entry.key, put.encode())]):
            raise _changing(info.name)

    def _let_go(self, info: UpstreamInfo) -> None:
        """Forget nodes that leave and are merged up to their end, as the log of all nodes says."""
        entry = self._store.get(self._keys.upstream_info(info.name))
        merged = self.status(info.name).position.get("nodes", {})
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
            self._end(node)
            self._observer.forget_upstream(node)
            Anchors(self._store, self._keys, node).clear()
            _log.info("upstream %s: node %s has left", info.name, node)

    def remove(self, name: str, expected: Expected = None) -> None:
        """Forget an upstream and delete its log; refused while changefeeds read it."""
        with self._guard:
            entry = self._store.get(self._keys.upstream_info(name))
            pulled = _pulled(self.info(name))
            assert entry is not None
            check(entry, expected, f"upstream {name}")
            users = []
            for feed in self._store.range(self._keys.feed_info_prefix)[1]:
                try:
                    uses = read(feed, FeedInfo).upstream == name
                except StoredValueUnreadable:
                    uses = True
                if uses:
                    users.append(last(feed.key))
            statuses = [Delete(self._keys.upstream_status(one.name)) for one in pulled]
            ops = [Delete(entry.key), Delete(self._keys.placement(name)), *statuses]
            compare = Unchanged(entry.key, entry.mod_revision)
            if users or not self._store.txn([compare], ops):
                raise UpstreamInUse(
                    f"read by {', '.join(users) or 'a changefeed'}",
                    object=f"upstream {name}",
                    hint="remove these changefeeds first",
                )
            self._changing.add(name)
        try:
            # Who writes the log of all before those whose logs it reads.
            for one in pulled:
                self._end(one.name)
                self._observer.forget_upstream(one.name)
                Anchors(self._store, self._keys, one.name).clear()
            log_folders.remove(self._folder(name).parent)
        finally:
            with self._guard:
                self._changing.discard(name)
        _log.info("upstream %s: removed", name)

    def schema_at(self, name: str, ts: Ts, wanted: Wanted | None = None) -> tuple[Ts, Schema]:
        """(ts, schema) to start a changefeed at; 0 is now, as the server has the wanted tables."""
        info = self.info(name)
        # What was placed elsewhere may have left a log here, of other ts.
        folder = self._folder(name) if self._delivery is None else self.log_folder(name)
        if ts == 0:
            ts = self._source.schema_now(info, folder, wanted)
        return ts, self._source.schema_at(folder, ts)

    def check_replica(self, name: str, uri: str) -> None:
        """Raises what forbids to read rows from a replica of an upstream."""
        self._source.check_replica(self.info(name), uri)

    def log_folder(self, name: str) -> Path:
        """Where the change log of an upstream lies. Raises UpstreamLogNotReady."""
        if name not in self._ready:
            raise UpstreamLogNotReady(
                "its change log is being looked for, or made anew",
                object=f"upstream {name}",
                hint="try again in a moment; cdc cli upstream query shows what it waits for",
            )
        return self._folder(name)

    def claims(self) -> dict[str, Held]:
        """By upstream what guards all that is written of it here; not of those that are leaving."""
        return {
            name: Held(self._keys.puller(name), token)
            for name, token in dict(self._claims).items()
            if name not in self._leaving
        }

    def make_log_anew(self, name: str) -> None:
        """Have an upstream that is placed here begun anew with another log; the others go on.

        Returns before it is.
        """
        self.disown_log(name)
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
            for info in _pulled(self.info(name)):
                puller = self._pullers.get(info.name)
                if puller is not None and not puller.part.alive:
                    self._start_anew(info)

    def _start_anew(self, info: UpstreamInfo) -> None:
        if self._stop.is_set():
            return
        fresh = self._supervised(info)
        known = self.status(info.name)
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
        """What the changefeeds that read an upstream need of its log, or of a node what the log of
        all of them needs.

        The greatest ts if there are none. Finished changefeeds need nothing, as TiCDC has it; of
        one that cannot be read nobody knows, so everything is kept.
        """
        if is_node(name):
            return Needed(self._behind_merged.get(name, 0), ())
        lowest, starts = MAX_TS, []
        found = self._store.range(self._keys.feed_status_prefix)[1]
        statuses = {last(entry.key): entry for entry in found}
        for entry in self._store.range(self._keys.feed_info_prefix)[1]:
            try:
                feed = read(entry, FeedInfo)
            except StoredValueUnreadable:
                lowest = 0
                continue
            if feed.upstream == name and feed.state not in _NEEDS_NOTHING:
                status = statuses.get(feed.id)
                checkpoint = feed.start_ts
                if status is not None:
                    # One that cannot be read leaves the start: less may go, nothing is lost.
                    with suppress(StoredValueUnreadable):
                        checkpoint = read(status, FeedStatus).needed_ts
                lowest = min(lowest, checkpoint)
                starts.append(feed.start_ts)
        return Needed(lowest, tuple(starts))

    def _look_on(self) -> bool:
        here = self._here()
        # Nodes come before the log of all of them.
        known = [one for one in self.all() if here is None or one.name in here]
        wanted = {i.name: i for one in known for i in reversed(_pulled(one))}
        for name, info in wanted.items():
            if self._stop.is_set():
                break
            if name in self._pullers:
                self._renew(info)
            else:
                self._begin(info, here)
        kept = set(self.unreadable())
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
            self._end(name)
            if here is not None:
                # Whoever has it now says how it fares.
                self._observer.forget_upstream(name)
        self._leaving.difference_update(map(upstream_of, gone))
        self._part.well()
        leaving = [one for one in known if any(node.ends_ts for node in one.nodes)]
        for one in leaving:
            self._let_go(one)
        # One whose puller's key is somebody else's still is tried again.
        calm = not leaving and wanted.keys() <= self._pullers.keys()
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

    def _ensured(self, info: UpstreamInfo) -> Anchoring:
        """Have the upstream's log there, for all who read it."""
        held = Held(self._keys.puller(info.name), self._claims.get(info.name, 0))
        try:
            anchors, current = self._replacement.ensure(info, [held])
        except BaseException:
            self._ready.discard(info.name)
            raise
        self._ready.add(info.name)
        return Anchoring(self._folder(info.name), anchors, [current, held], self._capture)

    def _supervised(self, info: UpstreamInfo) -> SupervisedPuller:
        return SupervisedPuller(info, self._write, self._tell, self._clock, self._parts)

    def _write(self, info: UpstreamInfo, say: OnStatus, stop: threading.Event) -> None:
        """Write the log of an upstream, or node, until stopped."""
        if info.nodes:
            self._merge(info, say, stop)
            return
        folder, needed = self._folder(info.name), partial(self.needed, info.name)
        self._source.pull(info, folder, say, needed, stop, self._ensured(info))

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

    def _merge(self, info: UpstreamInfo, say: OnStatus, stop: threading.Event) -> None:
        """Write the log of all nodes until stopped."""
        self._ensured(info)

        def keep(behind: Mapping[str, Ts]) -> None:
            self._behind_merged |= {f"{info.name}.{node}": ts for node, ts in behind.items()}

        def statuses() -> dict[str, UpstreamStatus]:
            pullers = {node.node_name: self._pullers.get(node.name) for node in info.nodes}
            return {n: p.last if p is not None else UpstreamStatus() for n, p in pullers.items()}

        folder, needed = self._folder(info.name), partial(self.needed, info.name)
        self._source.merge(info, folder, say, needed, stop, keep, statuses)

    def _end(self, name: str) -> None:
        self._ready.discard(name)
        puller = self._pullers.get(name)
        if puller is not None:
            puller.halt()
            puller.part.join(10.0)
            # From now on another capture can have it; if that cannot be written it is tried again.
            held = Held(self._keys.puller(name), self._claims.get(name, 0))
            self._store.txn([held], [Delete(held.key)])
            self._pullers.pop(name, None)
            self._claims.pop(name, None)
            self._parts.forget(puller.part)


def _changing(name: str) -> UpstreamChanging:
    return UpstreamChanging(
        "it is being changed by another request",
        object=f"upstream {name}",
        hint="look at it again, then try again",
    )


def _pulled(info: UpstreamInfo) -> list[UpstreamInfo]:
    """All that has a log and a thread that writes it: an upstream, and its nodes behind it."""
    return [info, *info.nodes]
