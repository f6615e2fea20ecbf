"""How the servers of an upstream are reached, changed without a new log: the change as values.

The log stays, so whatever is changed must lead to the server whose changes it has; that is asked of
the server itself (:func:`cdc.source.registration.recheck`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.coord.messages import UpstreamInfo
from cdc.server.nodes import NodesInvalid
from cdc.source.connection import parse_uri, with_login


@dataclass(frozen=True, slots=True)
class NewAccess:
    """What is to be different; None stays as it is.

    ``uri`` takes the place of the whole URI, so a password is never sent to a host that it was not
    given with; ``user`` and ``password`` take the places of those in it. An empty ``ca``, ``cert``
    or ``key`` takes the file's name away.
    """

    uri: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def changed(
    info: UpstreamInfo, asked: NewAccess, nodes: Mapping[str, NewAccess] | None = None
) -> UpstreamInfo:
    """The upstream with the new access; of several nodes, ``nodes`` has what is new for one alone.

    Raises NodesInvalid and UpstreamUriInvalid.
    """
    nodes = nodes or {}
    known = {node.node_name for node in info.nodes}
    if unknown := nodes.keys() - known:
        raise NodesInvalid(
            f"{', '.join(sorted(unknown))} is none of its nodes",
            object=f"upstream {info.name}",
            hint=f"its nodes are {', '.join(sorted(known))}" if known else "give its own --uri",
        )
    if not info.nodes:
        return _reached(info, asked)
    if asked.uri is not None:
        raise NodesInvalid(
            "an upstream of several nodes has no URI of its own",
            object=f"upstream {info.name}",
            hint="give --node name=uri",
        )
    theirs = [_reached(n, asked, nodes.get(n.node_name, NewAccess())) for n in info.nodes]
    _check_apart(info.name, theirs)
    return _with_files(info, asked).model_copy(update={"nodes": theirs})


def access(info: UpstreamInfo) -> tuple[object, ...]:
    """All that a connection to the server of an upstream, or of a node, is made with.

    Of one that is several servers, which these are and which of them leave.
    """
    nodes = tuple((node.name, node.ends_ts) for node in info.nodes)
    return info.uri, info.ca, info.cert, info.key, nodes


def _reached(info: UpstreamInfo, *asked: NewAccess) -> UpstreamInfo:
    for one in asked:
        uri = info.uri if one.uri is None else one.uri
        if one.user is not None or one.password is not None:
            uri = with_login(uri, one.user, one.password)
        parse_uri(uri)
        info = _with_files(info, one).model_copy(update={"uri": uri})
    return info


def _with_files(info: UpstreamInfo, asked: NewAccess) -> UpstreamInfo:
    given = {"ca": asked.ca, "cert": asked.cert, "key": asked.key}
    return info.model_copy(update={n: v or None for n, v in given.items() if v is not None})


def _check_apart(upstream: str, nodes: list[UpstreamInfo]) -> None:
    servers: dict[tuple[str, int], str] = {}
    for node in nodes:
        endpoint = parse_uri(node.uri)
        other = servers.setdefault((endpoint.host, endpoint.port), node.node_name)
        if other != node.node_name:
            raise NodesInvalid(
                f"nodes {other} and {node.node_name} are one server", object=f"upstream {upstream}"
            )
