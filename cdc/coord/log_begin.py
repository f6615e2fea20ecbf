"""Whether and where the logs of an upstream could begin anew: decided from anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.base.nodes import SHARDS
from cdc.base.ts import MAX_TS, Ts
from cdc.coord.anchors import Anchors
from cdc.coord.contract import Store
from cdc.coord.keys import Keys, last
from cdc.coord.messages import ENDED, Anchor, FeedInfo, FeedStatus, UpstreamInfo
from cdc.coord.stored import readable


@dataclass(frozen=True, slots=True)
class LogBegin:
    """That of the log of all, and that of each node's by its whole name."""

    merged: Anchor
    nodes: Mapping[str, Anchor]


def begin_at(
    needed_ts: Ts, merged: Sequence[Anchor], nodes: Mapping[str, tuple[str, Sequence[Anchor]]]
) -> LogBegin | None:
    """The latest place where the logs of several nodes could begin; None if there is none.

    Anchors rise by ts; ``nodes``: by whole name a node's own name and its anchors. A node that came
    above the place comes once more, so its log begins where its first one did.
    """
    for anchor in reversed([a for a in merged if a.ts <= needed_ts]):
        merged_to = anchor.position.get("nodes", {})
        found: dict[str, Anchor] = {}
        for whole_name, (name, known) in nodes.items():
            if name in merged_to:
                below = [a for a in known if a.ts <= merged_to[name]][-1:]
            else:
                below = [a for a in known[:1] if a.first]
            if below:
                found[whole_name] = below[0]
        # Of one that has left since nobody can tell any more what it had.
        left = merged_to.keys() - {name for name, _ in nodes.values()}
        if merged_to and not left and len(found) == len(nodes):
            return LogBegin(anchor, found)
    return None


def begin_of(store: Store, keys: Keys, info: UpstreamInfo, needed_ts: Ts) -> LogBegin | None:
    """The same of an upstream, by what the store knows."""
    merged = Anchors(store, keys, info.name).all()
    if info.kind == SHARDS:
        merged = [anchor for anchor in merged if of_shards(anchor.position)]
    nodes = {n.name: (n.node_name, Anchors(store, keys, n.name).all()) for n in info.nodes}
    return begin_at(needed_ts, merged, nodes)


def could_begin(store: Store, keys: Keys, info: UpstreamInfo, needed_ts: Ts) -> bool:
    """Whether another log of an upstream, of one server too, could begin low enough.

    Of one server that is believed where there are no anchors, as earlier versions wrote none.
    """
    if info.nodes:
        return begin_of(store, keys, info, needed_ts) is not None
    anchors = Anchors(store, keys, info.name).all()
    return not anchors or anchors[0].ts <= needed_ts


def of_shards(position: Mapping[str, Any]) -> bool:
    """Whether an anchor's position says which transaction of each node was merged last."""
    return "last" in position


def needed_ts(store: Store, keys: Keys) -> dict[str, Ts]:
    """By upstream, the lowest checkpoint of the changefeeds that read it; none of what has none."""
    entries = store.range(keys.feed_status_prefix)[1]
    at = {last(e.key): status.checkpoint_ts for e, status in readable(entries, FeedStatus)}
    found: dict[str, Ts] = {}
    for _, feed in readable(store.range(keys.feed_info_prefix)[1], FeedInfo):
        if feed.state not in ENDED:
            ts = at.get(feed.id, feed.start_ts)
            found[feed.upstream] = min(ts, found.get(feed.upstream, MAX_TS))
    return found
