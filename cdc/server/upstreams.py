"""The upstreams of a capture: registered, listed, removed; one puller thread for each."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import (
    ErrorKind,
    InvalidError,
    TidegateError,
    TransientError,
)
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
    StoreFailed,
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
    UpstreamStatus,
)
from cdc.coord.names import UPSTREAM_NAME
from cdc.coord.stored import StoredValueUnreadable, read, readable
from cdc.schema.snapshot import Schema
from cdc.server import log_folders
from cdc.server.log_replacement import LogMaker, LogReplacement
from cdc.server.merging import Statuses
from cdc.server.needed import Needed
from cdc.server.nodes import (
    CLUSTER,
    DEFAULT_CARRIER,
    NewNode,
    asked_nodes,
    check_nodes,
    is_node,
    node_findings,
    register_nodes,
    short,
    upstream_of,
)
from cdc.server.upstream_access import NewAccess, access, changed
from cdc.source.anchoring import Anchoring

_log = logging.getLogger("upstream")

_CLAIM_S = 1.0
_NEEDS_NOTHING = frozenset({FeedState.FINISHED, FeedState.REMOVED})


OnStatus = Callable[[UpstreamStatus], None]


class UpstreamNotFound(InvalidError):
    """There is no upstream of this name."""

    code = "TG:ErrUpstreamNotFound"


class UpstreamExists(InvalidError):
    """An upstream of this name is registered."""

    code = "TG:ErrUpstreamExists"


class UpstreamChanging(InvalidError):
    """The upstream is being changed, or was changed meanwhile."""

    code = "TG:ErrUpstreamChanging"


class UpstreamInUse(InvalidError):
    """Changefeeds read this upstream."""

    code = "TG:ErrUpstreamInUse"


class UpstreamNameInvalid(InvalidError):
    """The name of an upstream breaks the rules."""

    code = "TG:ErrUpstreamNameInvalid"


class PullerFailed(TransientError):
    """A puller ended in a way that it did not name."""

    code = "TG:ErrPullerFailed"


class UpstreamLogNotReady(TransientError):
    """The upstream's log is not there yet."""

    code = "TG:ErrUpstreamLogNotReady"


class LogSource(LogMaker, Protocol):
    """What reads real servers and writes change logs."""

    def register(self, asked: UpstreamInfo, start: str | None, folder: Path) -> UpstreamInfo:
        """Check the server, take the snapshot, make the log; the info completed."""

    def first_anchor(self, folder: Path) -> tuple[Ts, dict[str, Any], dict[str, Any]]:
        """Of a log that was just made: its begin, the upstream's position and the schema there."""

    def pull(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        anchoring: Anchoring,
    ) -> None:
        """Pull into the log until stopped; raises what ends it.

        ``needed``: what changefeeds need of the log; the rest may go. ``anchoring`` notes from time
        to time where another log could begin.
        """

    def recheck(self, info: UpstreamInfo, folder: Path) -> UpstreamInfo:
        """The upstream, or node, with what is advised now; raises if its server is another."""

    def unite(self, info: UpstreamInfo, folder: Path, nodes: Sequence[tuple[str, Path]]) -> None:
        """Make the log over the logs of nodes, by name."""

    def merge(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        keep: Callable[[Mapping[str, Ts]], None],
        statuses: Statuses,
    ) -> None:
        """Write the log over the logs of nodes until stopped; raises what ends it.

        ``keep`` takes up to which ts each node's log, by its own name, is not needed any more.
        """

    def schema_now(self, info: UpstreamInfo, folder: Path) -> Ts:
        """Take a schema snapshot of this moment; the ts at which it holds."""

    def schema_at(self, folder: Path, ts: Ts) -> Schema:
        """The schema for rows at ``ts``; raises if the log begins later."""


class Observer(Protocol):
    """Who is told how upstreams fare."""

    def observe_upstream(self, name: str, status: UpstreamStatus) -> None:
        """A puller has said something."""

    def forget_upstream(self, name: str) -> None:
        """The upstream was removed."""


class Upstreams:
    """Operations on upstreams, and the supervision of their pullers.

    ``folder`` names the folder of an upstream's change log. Each puller holds a key under the
    capture's lease, so that exactly one capture pulls a node.
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
    ) -> None:
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
        self._pullers: dict[str, _Puller] = {}
        # Up to which ts logs of nodes are not needed any more, by "upstream.node".
        self._behind_merged: dict[str, Ts] = {}
        # Names that are being registered or removed, which takes time and not the lock.
        self._changing: set[str] = set()
        self._stop = threading.Event()
        self._watch = store.watch(keys.upstream_info_prefix, store.revision() + 1)
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
            if not self._store.txn([Unchanged(key, 0)], [Put(key, value)]):
                raise exists
        except BaseException:
            log_folders.give_up(folder.parent)
            raise
        log_folders.complete(folder.parent)
        self._ready.add(name)
        return info

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
        changing = UpstreamChanging(
            "it is being changed by another request",
            object=f"upstream {name}",
            hint="look at it again, then try again",
        )
        with self._guard:
            if name in self._changing:
                raise changing
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
                raise changing
        finally:
            with self._guard:
                self._changing.discard(name)
        self.revive(name)
        _log.info("upstream %s: its access was changed", name)
        return info

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
            ops = [Delete(entry.key), *statuses]
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

    def schema_at(self, name: str, ts: Ts) -> tuple[Ts, Schema]:
        """(ts, schema) to start a changefeed at; 0 takes a new snapshot of this moment."""
        info, folder = self.info(name), self._folder(name)
        if ts == 0:
            ts = self._source.schema_now(info, folder)
        return ts, self._source.schema_at(folder, ts)

    def log_folder(self, name: str) -> Path:
        """Where the change log of an upstream lies. Raises UpstreamLogNotReady."""
        if name not in self._ready:
            raise UpstreamLogNotReady(
                "its change log is being looked for, or made anew",
                object=f"upstream {name}",
                hint="try again in a moment; cdc cli upstream query shows what it waits for",
            )
        return self._folder(name)

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
        fresh = _Puller(self, info)
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
        # Nodes come before the log of all of them.
        wanted = {i.name: i for one in self.all() for i in reversed(_pulled(one))}
        for name, info in wanted.items():
            if self._stop.is_set():
                break
            if name in self._pullers:
                self._renew(info)
            else:
                self._begin(info)
        unreadable = self.unreadable().keys()
        gone = [n for n in self._pullers if n not in wanted and upstream_of(n) not in unreadable]
        for name in gone:
            self._end(name)
        self._part.well()
        try:
            # One whose puller's key is somebody else's still is tried again.
            self._watch.next(None if wanted.keys() <= self._pullers.keys() else _CLAIM_S)
        except WatchCompacted:
            start = self._store.revision() + 1
            self._watch = self._store.watch(self._keys.upstream_info_prefix, start)
        return True

    def _begin(self, info: UpstreamInfo) -> None:
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
        try:
            if not self._store.txn(compares, [put]):
                return
        except LeaseExpired:
            return
        puller = _Puller(self, info)
        self._pullers[info.name] = puller
        puller.part.start()

    def _ensured(self, info: UpstreamInfo) -> Anchoring:
        """Have the upstream's log there, for all who read it."""
        claim = self._store.get(self._keys.puller(info.name))
        held = Held(self._keys.puller(info.name), claim.create_revision if claim else 0)
        try:
            anchors, current = self._replacement.ensure(info, [held])
        except BaseException:
            self._ready.discard(info.name)
            raise
        self._ready.add(info.name)
        return Anchoring(self._folder(info.name), anchors, [current, held], self._capture)

    def _merge(self, info: UpstreamInfo, say: OnStatus, stop: threading.Event) -> None:
        """Write the log of all nodes until stopped."""
        self._ensured(info)

        def keep(behind: Mapping[str, Ts]) -> None:
            self._behind_merged |= {f"{info.name}.{node}": ts for node, ts in behind.items()}

        def statuses() -> dict[str, UpstreamStatus]:
            pullers = {short(node): self._pullers.get(node.name) for node in info.nodes}
            return {n: p.last if p is not None else UpstreamStatus() for n, p in pullers.items()}

        folder, needed = self._folder(info.name), partial(self.needed, info.name)
        self._source.merge(info, folder, say, needed, stop, keep, statuses)

    def _end(self, name: str) -> None:
        self._ready.discard(name)
        puller = self._pullers.pop(name, None)
        if puller is not None:
            puller.halt()
            puller.part.join(10.0)
            self._parts.forget(puller.part)
            self._store.txn([], [Delete(self._keys.puller(name))])


def _pulled(info: UpstreamInfo) -> list[UpstreamInfo]:
    """All that has a log and a thread that writes it: an upstream, and its nodes behind it."""
    return [info, *info.nodes]


_ON_THE_WAY = ("starting", "connecting")


class _Puller:
    """What writes one log, started again after whatever may heal, and with another access."""

    def __init__(self, owner: Upstreams, info: UpstreamInfo) -> None:
        self.stop = threading.Event()
        what = "merger" if info.nodes else "puller"
        self.part = owner._parts.make(
            f"{what} {info.name}", self._pull, self.stop, upstream=info.name
        )
        self._owner = owner
        self._guard = threading.Lock()
        self._info = info
        # Ends what runs now; it runs again unless it is to stop.
        self._again = threading.Event()
        self._ended = False
        self._last = UpstreamStatus()
        self._backoff = Backoff(0.2)

    @property
    def last(self) -> UpstreamStatus:
        """What it said last."""
        return self._last

    @property
    def info(self) -> UpstreamInfo:
        """What it reads, and how that is reached."""
        return self._info

    def halt(self) -> None:
        """Have it end; returns at once."""
        with self._guard:
            self.stop.set()
            self._again.set()

    def renew(self, info: UpstreamInfo) -> bool:
        """Have it begin anew, with another access; False if it has come to its end."""
        with self._guard:
            if not self._ended:
                self._info = info
                self._again.set()
            return not self._ended

    def _pull(self) -> bool:
        """Pull until that ends; False if nothing but an operator can mend its error."""
        owner = self._owner
        with self._guard:
            info, again = self._info, threading.Event()
            self._again = again
            if self.stop.is_set():
                return False
        began = owner._clock.monotonic()
        try:
            if info.nodes:
                owner._merge(info, self.say, again)
            else:
                folder = owner._folder(info.name)
                needed = partial(owner.needed, info.name)
                anchoring = owner._ensured(info)
                owner._source.pull(info, folder, self.say, needed, again, anchoring)
            return not self._at_end(again)
        except TidegateError as e:
            error = e
        except Exception as e:
            _log.exception("upstream %s: puller failed", info.name)
            error = PullerFailed(type(e).__name__, object=f"upstream {info.name}")
        _log.error("upstream %s: %s", info.name, error)
        final = error.kind is not ErrorKind.TRANSIENT
        said = ErrorInfo(**error.to_dict(), time_ms=owner._clock.now_ms())
        state = "failed" if final else "retrying"
        self.tell(self._last.model_copy(update={"state": state, "error": said}))
        if final:
            return not self._at_end(again)
        if owner._clock.monotonic() - began > 60:
            self._backoff = self._backoff.succeeded()
        self._backoff = self._backoff.failed()
        self.part.well()
        again.wait(self._backoff.delay_s())
        return True

    def _at_end(self, again: threading.Event) -> bool:
        """Whether what has run is not to run again; from then on it cannot be renewed."""
        with self._guard:
            self._ended = self.stop.is_set() or not again.is_set()
            return self._ended

    def say(self, status: UpstreamStatus) -> None:
        """Write a status; while the store cannot, pulling goes on, and the next one follows.

        Why the server was lost is shown until it is there again: an attempt takes many times as
        long as the pause in which it is known to be lost.
        """
        if status.state in _ON_THE_WAY and status.error is None:
            status = status.model_copy(update={"error": self._last.error})
        try:
            self.tell(status)
        except StoreFailed as e:
            self.part.failed(e)
        else:
            self.part.well()

    def tell(self, status: UpstreamStatus) -> None:
        """Write a status to the metrics and the store; raises StoreFailed."""
        self._last = status
        owner, name = self._owner, self._info.name
        entry = owner._store.get(owner._keys.upstream_info(upstream_of(name)))
        if entry is None:
            return
        owner._observer.observe_upstream(name, status)
        put = Put(owner._keys.upstream_status(name), status.model_dump_json().encode())
        owner._store.txn([Unchanged(entry.key, entry.mod_revision)], [put], durable=False)
