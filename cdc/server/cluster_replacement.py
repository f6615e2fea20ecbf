"""The logs of several nodes are there before anybody writes or reads them, or all are made anew.

The merged order of a cluster follows from the nodes' binlogs (decision 95), and that of shards goes
from cut to cut (decision 105). So where the log of all, or one of a node, is not there, all of them
begin anew: that of all at an anchor below what changefeeds need, each node's at an anchor of its
own that lies below what is merged there. What a node's log calls its transactions is of that log
alone; so anchors above are forgotten, and the one that is begun with says what the new logs of the
nodes call their begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cdc.base.errors import TransientError
from cdc.base.nodes import SHARDS
from cdc.base.ts import Ts
from cdc.changelog import names, origin
from cdc.changelog.origin import Origin
from cdc.coord.anchors import Anchors
from cdc.coord.contract import MAX_OPS, Compare, Delete, Op, Put, Store, Unchanged
from cdc.coord.keys import Keys
from cdc.coord.log_begin import LogBegin, begin_of
from cdc.coord.messages import CurrentLog, UpstreamInfo
from cdc.server import log_folders
from cdc.server.log_replacement import (
    LogMaker,
    LogReplacement,
    UpstreamLogLost,
    UpstreamMoved,
    no_place,
)
from cdc.server.nodes import with_nodes
from cdc.source.merged_anew import begun_with


class NodeLogGone(TransientError):
    """A log of several nodes is not there while others of it are written: all are begun anew."""

    code = "TG:ErrNodeLogGone"


class ClusterReplacement:
    """Of upstreams of several nodes of one capture; arguments as of :class:`LogReplacement`."""

    def __init__(
        self,
        store: Store,
        keys: Keys,
        capture: str,
        maker: LogMaker,
        folder: Callable[[str], Path],
        logs: LogReplacement,
    ) -> None:
        self._store = store
        self._keys = keys
        self._capture = capture
        self._maker = maker
        self._folder = folder
        self._logs = logs

    def anchored_ts(self, info: UpstreamInfo, node: str) -> Ts:
        """The ts of a node's log at or below which an anchor must stay, as another one needs it."""
        anchors = self._anchors(info.name).all()
        return min((a.position.get("nodes", {}).get(node, 0) for a in anchors), default=0)

    def ensure(self, info: UpstreamInfo, held: Sequence[Compare], *, used: bool) -> None:
        """See to it that all logs of an upstream are there, and are those that positions belong to.

        ``held`` says that this capture has the upstream, which nobody has without all its nodes.
        ``used``: some of its logs are written; then none is replaced. Raises NodeLogGone,
        UpstreamLogLost, UpstreamMoved.
        """
        currents = {one.name: self._anchors(one.name).current() for one in with_nodes(info)}
        there = {name: self._there(name, log) for name, (_, log) in currents.items()}
        ours = all(
            there[name] is not None and (log is None or log.log == there[name])
            for name, (_, log) in currents.items()
        )
        if not ours or self._logs.older(info.name):
            if used:
                raise NodeLogGone(
                    "a log of it is not there, or is an older copy, while others are written",
                    object=f"upstream {info.name}",
                    hint="nothing need be done: all of them are begun anew",
                )
            there = dict(self._replace(info, held))
        # That of all comes last: until then the logs are not the ones, and begin anew once more.
        for name, (revision, current) in reversed(currents.items()):
            log = there[name]
            if log is None or (current is not None and current == self._ours(log)):
                continue
            if not self._anchors(name).make_current(log, self._capture, revision, held):
                raise UpstreamMoved("another log took its place", object=f"upstream {info.name}")

    def _ours(self, log: str) -> CurrentLog:
        return CurrentLog(log=log, capture=self._capture)

    def current(self, name: str) -> tuple[Anchors, Unchanged]:
        """Anchors of the log of an upstream or node, and what says that it is still the one."""
        anchors = self._anchors(name)
        return anchors, Unchanged(self._keys.current_log(name), anchors.current()[0])

    def _there(self, name: str, current: CurrentLog | None) -> str | None:
        folder = self._folder(name)
        if not (folder / names.MANIFEST).exists():
            return None
        found = origin.load(folder)
        if found is None and current is None:
            # A log of an earlier version is as good as any.
            found = Origin.new()
            origin.save(folder, found)
        return found.log if found is not None else None

    def _replace(self, info: UpstreamInfo, held: Sequence[Compare]) -> Mapping[str, str]:
        needed = self._logs.needed(info.name)
        at = begin_of(self._store, self._keys, info, needed)
        if at is None:
            raise no_place(info.name, needed)
        merged = self._anchors(info.name)
        made = {info.name: self._logs.pinned(info.name, at.merged)}
        if info.kind == SHARDS:
            check_cuts(info.name, made[info.name])
        made |= {
            node.name: Origin.new(prepared=at.nodes[node.name].prepared) for node in info.nodes
        }
        folder = self._folder(info.name)
        snapshot = merged.schema(at.merged)
        log_folders.set_aside(folder.parent)
        log_folders.make(folder.parent)
        for node in info.nodes:
            anchor, anchors = at.nodes[node.name], self._anchors(node.name)
            schema = anchors.schema(anchor)
            self._maker.begin(self._folder(node.name), anchor, schema, made[node.name])
        begins = [(n.node_name, self._folder(n.name), at.nodes[n.name].ts) for n in info.nodes]
        self._maker.begin_merged(folder, at.merged, snapshot, made[info.name], begins)
        log_folders.complete(folder.parent)
        self._forget_above(info, at, held)
        return {name: one.log for name, one in made.items()}

    def _forget_above(self, info: UpstreamInfo, at: LogBegin, held: Sequence[Compare]) -> None:
        """Leave of all anchors those that the new logs begin with, and tell what is called how."""
        ops: list[Op] = [
            Delete(self._keys.anchor(info.name, a.ts))
            for a in self._anchors(info.name).all()
            if a.ts != at.merged.ts
        ]
        for node in info.nodes:
            ops += [
                Delete(self._keys.anchor(node.name, a.ts))
                for a in self._anchors(node.name).all()
                if a.ts > at.nodes[node.name].ts
            ]
        begins = {node.node_name: at.nodes[node.name].ts for node in info.nodes}
        position = begun_with(at.merged.position, begins)
        left = at.merged.model_copy(update={"position": position})
        ops.append(Put(self._keys.anchor(info.name, left.ts), left.model_dump_json().encode()))
        for first in range(0, len(ops), MAX_OPS):
            if not self._store.txn(held, ops[first : first + MAX_OPS]):
                raise UpstreamMoved("another one has it now", object=f"upstream {info.name}")

    def _anchors(self, name: str) -> Anchors:
        return Anchors(self._store, self._keys, name)


def check_cuts(upstream: str, made: Origin) -> None:
    """Raises UpstreamLogLost if a position of shards does not say where each node stands."""
    if (pin := next((pin for pin in made.pins if not pin.name.cut), None)) is not None:
        raise UpstreamLogLost(
            "the change log is not there, and a position does not say where each node stands, as"
            " an earlier version wrote it",
            object=f"upstream {upstream}",
            position=f"ts {pin.name.ts}",
            hint="put the log's folder back, or resume with --overwrite-checkpoint-ts",
        )
