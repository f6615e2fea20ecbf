"""An upstream of several nodes: what may be asked for, and its registration.

Each node is registered as an upstream of its own would be, by the name ``upstream.node``, which no
upstream has; the log of all of them begins where the last of them does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cdc.base.errors import InvalidError
from cdc.base.nodes import LONGEST, SHARDS
from cdc.changelog.node_logs import MOST_NODES
from cdc.coord.messages import UpstreamFinding, UpstreamInfo
from cdc.coord.names import NODE_NAME
from cdc.logical.names import compiled
from cdc.merge.carriers import CARRIERS
from cdc.source.connection import parse_uri

CLUSTER = "cluster"
# Kinds of upstreams that are several servers.
SEVERAL = frozenset({SHARDS, CLUSTER})
DEFAULT_CARRIER = "timestamp"


class NodesInvalid(InvalidError):
    """The nodes of an upstream are not such that they can be one."""

    code = "TG:ErrNodesInvalid"


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node that is asked for. ``start``: where it begins, as of a single upstream."""

    name: str
    uri: str = field(repr=False)
    start: str | None = None


class NodeSource(Protocol):
    """What registers nodes, and makes the log of all of them."""

    def register(self, asked: UpstreamInfo, start: str | None, folder: Path) -> UpstreamInfo:
        """Check the server, take the snapshot, make the log; the info completed."""

    def unite(
        self, info: UpstreamInfo, folder: Path, nodes: Sequence[tuple[str, Path]]
    ) -> list[UpstreamFinding]:
        """Make the log over the logs of nodes, by name; what is advised."""


def check_nodes(
    upstream: str, kind: str, uri: str, nodes: Sequence[NewNode], carrier: str = ""
) -> None:
    """Raises NodesInvalid unless what is asked for is one server, or nodes that are several."""
    wrong = _wrong(kind, uri, nodes) or _wrong_carrier(kind, carrier)
    if wrong:
        raise NodesInvalid(
            wrong[0], object=f"upstream {upstream}", hint=wrong[1] or "see docs/shards.md"
        )


def check_logical(upstream: str, kind: str, patterns: Sequence[str]) -> None:
    """Raises NodesInvalid, LogicalNamesInvalid unless patterns of parts can be those of a kind."""
    if patterns and kind != CLUSTER:
        raise NodesInvalid(
            f"an upstream of kind {kind} has no logical tables",
            object=f"upstream {upstream}",
            hint="--kind cluster takes --logical-tables",
        )
    for pattern in patterns:
        compiled(pattern)


def _wrong_carrier(kind: str, carrier: str) -> tuple[str, str] | None:
    if carrier and kind != CLUSTER:
        return f"an upstream of kind {kind} has no carrier", "--kind cluster takes --carrier"
    if carrier and carrier not in CARRIERS:
        return f"{carrier[:40]!r} is not a carrier of commit TSOs", f"one of {', '.join(CARRIERS)}"
    return None


def _wrong(kind: str, uri: str, nodes: Sequence[NewNode]) -> tuple[str, str] | None:
    if kind not in SEVERAL:
        if nodes or not uri:
            return (
                f"an upstream of kind {kind} has one URI and no nodes",
                "--kind shards and --kind cluster take --node",
            )
        return None
    if uri or not nodes:
        return f"an upstream of kind {kind} has nodes and no URI of its own", "give --node name=uri"
    if len(nodes) > MOST_NODES:
        return f"{len(nodes)} nodes are more than {MOST_NODES}", ""
    servers: dict[tuple[str, int], str] = {}
    names = set()
    for node in nodes:
        if not re.fullmatch(NODE_NAME, node.name) or len(node.name) > LONGEST:
            hint = f"small letters, digits, single hyphens and underscores, at most {LONGEST}"
            return f"{node.name[:40]!r} is not a name of a node", hint
        if node.name in names:
            return f"two nodes are called {node.name}", ""
        names.add(node.name)
        endpoint = parse_uri(node.uri)
        other = servers.setdefault((endpoint.host, endpoint.port), node.name)
        if other != node.name:
            return f"nodes {other} and {node.name} are one server", ""
    return None


def asked_nodes(asked: UpstreamInfo, nodes: Sequence[NewNode]) -> list[UpstreamInfo]:
    """What is to be registered for each node."""
    return [
        asked.model_copy(update={"name": f"{asked.name}.{n.name}", "uri": n.uri, "kind": "node"})
        for n in nodes
    ]


def is_node(name: str) -> bool:
    """Whether a name is a node's, with its upstream's before it."""
    return "." in name


def upstream_of(name: str) -> str:
    """The upstream that a name is of, or of whose node it is."""
    return name.partition(".")[0]


def with_nodes(info: UpstreamInfo) -> list[UpstreamInfo]:
    """All that has a log and a thread that writes it: an upstream, and its nodes behind it."""
    return [info, *info.nodes]


def node_findings(nodes: Sequence[UpstreamInfo]) -> list[UpstreamFinding]:
    """What is advised for each node, as advice for the upstream."""
    return [
        UpstreamFinding(what=f"node {n.node_name}: {f.what}", statement=f.statement)
        for n in nodes
        for f in n.findings
    ]


def check_server(upstream: str, nodes: Sequence[UpstreamInfo], node: UpstreamInfo) -> None:
    """Raises NodesInvalid if the server of a node is one of the others' already."""
    for other in nodes:
        if node.server_uuid and node.server_uuid == other.server_uuid:
            raise NodesInvalid(
                f"nodes {other.node_name} and {node.node_name} are one server",
                object=f"upstream {upstream}",
                hint="name each server once",
            )


def register_nodes(
    asked: UpstreamInfo,
    starts: Sequence[str | None],
    source: NodeSource,
    folder: Callable[[str], Path],
) -> UpstreamInfo:
    """Register each node, and make the log of all; the info completed.

    Raises what the registration of one raises, NodesInvalid, NodesUnlike.
    """
    nodes: list[UpstreamInfo] = []
    for node, start in zip(asked.nodes, starts, strict=True):
        found = source.register(node, start, folder(node.name))
        check_server(asked.name, nodes, found)
        nodes.append(found)
    first = nodes[0]
    _check_family(asked, first.server_kind)
    info = asked.model_copy(
        update={
            "nodes": nodes,
            "server_kind": first.server_kind,
            "server_version": first.server_version,
            "findings": node_findings(nodes),
        }
    )
    logs = [(n.node_name, folder(n.name)) for n in nodes]
    found_of_all = source.unite(info, folder(asked.name), logs)
    return info.model_copy(update={"findings": [*info.findings, *found_of_all]})


def _check_family(asked: UpstreamInfo, server_kind: str) -> None:
    """Raises NodesInvalid if servers of the nodes' family cannot carry TSOs as was asked for."""
    family = CARRIERS[asked.carrier].family if asked.carrier else ""
    if family and family != server_kind:
        fitting = ", ".join(c.name for c in CARRIERS.values() if c.family in ("", server_kind))
        raise NodesInvalid(
            f"no binlog of {server_kind} has commit TSOs as carrier {asked.carrier} reads them",
            object=f"upstream {asked.name}",
            hint=f"--carrier is one of {fitting}",
        )
