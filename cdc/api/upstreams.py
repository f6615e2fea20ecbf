"""``/api/v2/upstreams``: not in TiCDC, whose upstream is always its own cluster."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Response

from cdc.api import etags
from cdc.api.answers import Empty, Page
from cdc.api.etags import IfMatch
from cdc.api.paging import AskedPart
from cdc.api.requests import CreateNode, CreateUpstream, MoveUpstream, UpdateNode, UpdateUpstream
from cdc.api.upstream_models import PlacementOut, UpstreamOut
from cdc.coord.messages import UpstreamInfo
from cdc.server.capture import Capture
from cdc.server.nodes import NewNode, NodesInvalid
from cdc.server.upstream_access import NewAccess
from owner import placing


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/upstreams", tags=["upstream"])
    upstreams = capture.upstreams

    def shown(info: UpstreamInfo) -> UpstreamOut:
        nodes = [upstreams.status(node.name) for node in info.nodes]
        placed, _ = placing.of(capture.store, capture.keys, info.name)
        where = placed.capture if placed is not None else ""
        holder = capture.store.get(capture.keys.puller(info.name)) if where else None
        held_by = holder.value.decode() if holder is not None else ""
        return UpstreamOut.of(info, upstreams.status(info.name), nodes, where, held_by)

    @routes.get("")
    def list_upstreams(part: AskedPart) -> Page[UpstreamOut]:
        known = [shown(info) for info in upstreams.all()]
        broken = [UpstreamOut.unreadable(n, e) for n, e in upstreams.unreadable().items()]
        found = [u for u in known + broken if part.has(u.name)]
        found.sort(key=lambda u: u.name)
        return Page(total=len(found), items=list(part.of(found)))

    def tag(response: Response, name: str) -> None:
        etags.put(response, capture.store.get(capture.keys.upstream_info(name)))

    @routes.post("", responses=etags.TAGGED)
    def create(asked: CreateUpstream, response: Response) -> UpstreamOut:
        info = upstreams.register(
            asked.name,
            asked.uri.get_secret_value(),
            kind=asked.kind,
            carrier=asked.carrier,
            logical_tables=asked.logical_tables,
            nodes=[NewNode(n.name, n.uri.get_secret_value(), n.start) for n in asked.nodes],
            ca=asked.ca,
            cert=asked.cert,
            key=asked.key,
            start=asked.start,
        )
        tag(response, info.name)
        return shown(info)

    @routes.get("/{name}", responses=etags.TAGGED)
    def query(name: str, response: Response) -> UpstreamOut:
        # Before it is read: a tag may be of something older than what is shown, never newer.
        tag(response, name)
        return shown(upstreams.info(name))

    @routes.put("/{name}", responses=etags.TAGGED)
    def update(
        name: str, asked: UpdateUpstream, response: Response, expected: IfMatch
    ) -> UpstreamOut:
        """Reach the same server otherwise; it is asked before anything is changed."""
        nodes = {node.name: _access(node) for node in asked.nodes}
        if len(nodes) < len(asked.nodes):
            raise NodesInvalid("a node is named twice", object=f"upstream {name}")
        files = {"ca": asked.ca, "cert": asked.cert, "key": asked.key}
        info = upstreams.update(name, replace(_access(asked), **files), nodes, expected)
        tag(response, name)
        return shown(info)

    @routes.post("/{name}/move")
    def move(name: str, asked: MoveUpstream) -> PlacementOut:
        """Have another capture pull it and deliver what reads it; returns before it does."""
        upstreams.info(name)
        capture.check_clustered()
        placed = placing.move(capture.store, capture.keys, name, asked.capture_id, capture.clock)
        return PlacementOut.of(placed)

    @routes.post("/{name}/nodes", responses=etags.TAGGED)
    def add_node(
        name: str, asked: CreateNode, response: Response, expected: IfMatch
    ) -> UpstreamOut:
        """Another server that belongs to it from its start on."""
        node = NewNode(asked.name, asked.uri.get_secret_value(), asked.start)
        info = upstreams.add_node(name, node, expected)
        tag(response, name)
        return shown(info)

    @routes.delete("/{name}/nodes/{node}", responses=etags.TAGGED)
    def remove_node(name: str, node: str, response: Response, expected: IfMatch) -> UpstreamOut:
        """A server leaves, behind what is pulled of it by now; until then it is among the nodes."""
        info = upstreams.remove_node(name, node, expected)
        tag(response, name)
        return shown(info)

    @routes.delete("/{name}")
    def remove(name: str, expected: IfMatch) -> Empty:
        upstreams.remove(name, expected)
        return Empty()

    return routes


def _access(asked: UpdateUpstream | UpdateNode) -> NewAccess:
    return NewAccess(
        uri=None if asked.uri is None else asked.uri.get_secret_value(),
        user=asked.user,
        password=None if asked.password is None else asked.password.get_secret_value(),
    )
