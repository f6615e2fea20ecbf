"""Nodes that come to an upstream and leave it: the change as values.

How that shows in the log of all nodes is in :mod:`cdc.source.membership`. No name is given twice,
since rows of a node that has left are called by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cdc.base.ts import Ts
from cdc.coord.messages import UpstreamInfo
from cdc.merge.carriers import CARRIERS
from cdc.server.nodes import (
    CLUSTER,
    SEVERAL,
    NewNode,
    NodesInvalid,
    asked_nodes,
    check_nodes,
    node_findings,
)


def to_add(info: UpstreamInfo, asked: NewNode) -> UpstreamInfo:
    """What is to be registered for another node. Raises NodesInvalid, UpstreamUriInvalid."""
    _check_kind(info)
    if asked.name in info.left:
        raise NodesInvalid(
            f"a node {asked.name} has been of it, and the log still calls rows by that name",
            object=f"upstream {info.name}",
            hint="choose another name",
        )
    known = [NewNode(node.node_name, node.uri) for node in info.nodes]
    check_nodes(info.name, info.kind, "", [*known, asked])
    return asked_nodes(info, [asked])[0].model_copy(
        update={"nodes": [], "left": [], "findings": [], "server_uuid": ""}
    )


def added(info: UpstreamInfo, node: UpstreamInfo) -> UpstreamInfo:
    """The upstream with a node that was registered."""
    return _with(info, [*info.nodes, node])


def leaving(info: UpstreamInfo, name: str, end: Ts) -> UpstreamInfo:
    """The upstream of which a node is about to leave, behind ``end``; 0 if it is not merged yet.

    Asked for again, nothing changes. Raises NodesInvalid.
    """
    _check_kind(info)
    known = {node.node_name: node for node in info.nodes}
    node, upstream = known.get(name), f"upstream {info.name}"
    if node is None:
        raise NodesInvalid(
            f"{name[:40]!r} is none of its nodes",
            object=upstream,
            hint=f"its nodes are {', '.join(sorted(known))}",
        )
    if node.ends_ts:
        return info
    if all(other is node or other.ends_ts for other in info.nodes):
        raise NodesInvalid(
            f"{name} is the last of its nodes", object=upstream, hint="remove the upstream"
        )
    if not end:
        raise NodesInvalid(
            f"{name} is about to join",
            object=upstream,
            hint="try again when upstream query shows it in the position",
        )
    ended = node.model_copy(update={"ends_ts": end})
    return _with(info, [ended if one is node else one for one in info.nodes])


def gone(info: UpstreamInfo, merged: Mapping[str, Ts]) -> list[str]:
    """Nodes, by their whole names, that leave and that the log of all nodes has no more.

    ``merged``: by node up to where that log has it; empty while that is not known.
    """
    return [n.name for n in info.nodes if n.ends_ts and merged and n.node_name not in merged]


def without(info: UpstreamInfo, names: Collection[str]) -> UpstreamInfo:
    """The upstream without nodes that have left."""
    left = [node.node_name for node in info.nodes if node.name in names]
    kept = [node for node in info.nodes if node.name not in names]
    return _with(info, kept).model_copy(update={"left": [*info.left, *left]})


def _with(info: UpstreamInfo, nodes: list[UpstreamInfo]) -> UpstreamInfo:
    return info.model_copy(update={"nodes": nodes, "findings": node_findings(nodes)})


def _check_kind(info: UpstreamInfo) -> None:
    carrier = CARRIERS.get(info.carrier)
    if info.kind == CLUSTER and (carrier is None or not carrier.counts):
        counting = ", ".join(c.name for c in CARRIERS.values() if c.counts)
        raise NodesInvalid(
            f"carrier {info.carrier} does not say on how many nodes a heartbeat is, so nothing says"
            " when nodes change",
            object=f"upstream {info.name}",
            hint=f"create another upstream, with --carrier {counting}",
        )
    if info.kind not in SEVERAL:
        raise NodesInvalid(
            f"nodes of an upstream of kind {info.kind} do not change",
            object=f"upstream {info.name}",
            hint="create another upstream",
        )
