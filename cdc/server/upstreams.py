"""Operations on upstreams: registered, changed, removed, looked at."""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.parts import Parts
from cdc.base.ts import Ts
from cdc.coord.anchors import Anchors
from cdc.coord.contract import (
    Delete,
    Held,
    Put,
    Store,
    StoredKey,
    Unchanged,
)
from cdc.coord.expected import Expected, check
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    UpstreamInfo,
    UpstreamPlacement,
    UpstreamStatus,
)
from cdc.coord.names import UPSTREAM_NAME
from cdc.coord.stored import StoredValueUnreadable
from cdc.schema.snapshot import Schema, Wanted
from cdc.server import log_folders, membership
from cdc.server.log_replacement import LogReplacement
from cdc.server.log_source import LogSource
from cdc.server.needed import Needed
from cdc.server.nodes import (
    CLUSTER,
    DEFAULT_CARRIER,
    NewNode,
    asked_nodes,
    check_logical,
    check_nodes,
    check_server,
    node_findings,
    register_nodes,
    with_nodes,
)
from cdc.server.pullers import Observer, PlacedDelivery, Pullers
from cdc.server.registered import Registered
from cdc.server.upstream_access import NewAccess, changed
from cdc.server.upstream_errors import (
    UpstreamChanging,
    UpstreamExists,
    UpstreamInUse,
    UpstreamNameInvalid,
)
from cdc.source.reading_ahead import tables_read_ahead
from owner import placing
from owner.placement import PlacementReason

_log = logging.getLogger("upstream")

_CLAIM_S = 1.0


class Upstreams:
    """Operations on upstreams; whoever pulls them sees what was written.

    The arguments are those of :class:`cdc.server.pullers.Pullers`.
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
        self._placed = delivery is not None
        self._store = store
        self._keys = keys
        self._capture = capture_id
        self._source = source
        self._folder = folder
        self._clock = clock
        self._observer = observer
        self._guard = threading.Lock()
        # Names that are being registered or removed, which takes time and not the lock.
        self._changing: set[str] = set()
        self._registered = Registered(store, keys, clock)
        self._replacement = LogReplacement(store, keys, capture_id, source, folder)
        self._pullers = Pullers(
            store,
            keys,
            capture_id,
            lease,
            source,
            folder,
            clock,
            observer,
            parts or Parts(),
            self._registered,
            self._replacement,
            delivery,
        )

    def start(self) -> None:
        """Begin to pull what is registered."""
        self._pullers.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop all pullers."""
        self._pullers.stop(timeout_s)

    def all(self) -> list[UpstreamInfo]:
        """All registered upstreams that can be read, by name."""
        return self._registered.all()

    def unreadable(self) -> dict[str, StoredValueUnreadable]:
        """By name those that cannot be read; nothing is done with them, and nothing to them."""
        return self._registered.unreadable()

    def info(self, name: str) -> UpstreamInfo:
        """One upstream; raises :class:`UpstreamNotFound`."""
        return self._registered.info(name)

    def status(self, name: str) -> UpstreamStatus:
        """What its puller said last."""
        return self._registered.status(name)

    def log_folder(self, name: str) -> Path:
        """Where the change log of an upstream lies. Raises UpstreamLogNotReady."""
        return self._pullers.log_folder(name)

    def revive(self, name: str) -> None:
        """Start pullers anew that an error has ended; nothing happens if they run."""
        self._pullers.revive(name)

    def needed(self, name: str) -> Needed:
        """What changefeeds need of an upstream's log, or of a node what the log of all needs."""
        return self._pullers.needed(name)

    def claims(self) -> dict[str, Held]:
        """By upstream what guards all that is written of it here; not of those that are leaving."""
        return self._pullers.claims()

    def counts(self) -> dict[str, int]:
        """How many upstreams are held here, are coming, and are leaving."""
        return self._pullers.counts()

    def handed_over(self) -> bool:
        """Whether nothing is here that another capture could take over."""
        return self._pullers.handed_over()

    def make_log_anew(self, name: str) -> None:
        """Have an upstream that is placed here begun anew with another log; the others go on.

        Returns before it is.
        """
        self._pullers.make_log_anew(name)

    def disown_log(self, name: str) -> None:
        """Positions do not lie in our log where their ts says: the next capture makes it anew."""
        self._pullers.disown_log(name)

    def register(
        self,
        name: str,
        uri: str = "",
        *,
        kind: str = "single",
        nodes: Sequence[NewNode] = (),
        carrier: str = "",
        logical_tables: Sequence[str] = (),
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        start: str | None = None,
    ) -> UpstreamInfo:
        """Check a server, or each of several nodes, and begin to pull.

        ``start`` is of a node, too, that has none of its own. ``carrier`` and
        ``logical_tables`` are of kind ``cluster``.
        """
        if not re.fullmatch(UPSTREAM_NAME, name) or len(name) > 128:
            raise UpstreamNameInvalid(
                f"{name[:130]!r} is not a name of an upstream",
                hint="letters, digits, single hyphens and underscores, at most 128 characters",
            )
        check_nodes(name, kind, uri, nodes, carrier)
        check_logical(name, kind, logical_tables)
        asked = UpstreamInfo(
            name=name,
            uri=uri,
            kind=kind,
            carrier=carrier or (DEFAULT_CARRIER if kind == CLUSTER else ""),
            logical_tables=list(logical_tables),
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
        for one in with_nodes(asked):
            Anchors(self._store, self._keys, one.name).clear()
        try:
            if asked.nodes:
                info = register_nodes(asked, starts, self._source, self._folder)
            else:
                info = self._source.register(asked, starts[0], folder)
            value = info.model_dump_json().encode()
            # Before anybody can begin to pull it.
            for one in with_nodes(info):
                there = self._folder(one.name)
                self._replacement.note(one.name, there, self._source.first_anchor(there))
            compares, puts = [Unchanged(key, 0)], [Put(key, value)]
            if self._placed:
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
        self._pullers.log_stands(name)
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
                self._pullers.log_stands(node.name)
                made = membership.added(info, node)
                self._put_members(entry, made)
            except BaseException:
                self._pullers.log_is_gone(node.name)
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

    def remove(self, name: str, expected: Expected = None) -> None:
        """Forget an upstream and delete its log; refused while changefeeds read it."""
        with self._guard:
            entry = self._store.get(self._keys.upstream_info(name))
            pulled = with_nodes(self.info(name))
            assert entry is not None
            check(entry, expected, f"upstream {name}")
            users = self._registered.users(name)
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
                self._pullers.end(one.name)
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
        folder = self._folder(name) if not self._placed else self.log_folder(name)
        if ts:
            return ts, self._source.schema_at(folder, ts)
        with tables_read_ahead(folder, wanted):
            ts = self._source.schema_now(info, folder, wanted)
            return ts, self._source.schema_at(folder, ts)

    def check_replica(self, name: str, uri: str) -> None:
        """Raises what forbids to read rows from a replica of an upstream."""
        self._source.check_replica(self.info(name), uri)


def _changing(name: str) -> UpstreamChanging:
    return UpstreamChanging(
        "it is being changed by another request",
        object=f"upstream {name}",
        hint="look at it again, then try again",
    )
