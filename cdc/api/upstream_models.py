"""An upstream, its nodes, and where it is placed, in answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from cdc.api.changefeed_models import FeedError
from cdc.base.secrets import mask_uri
from cdc.base.ts import to_text
from cdc.coord.messages import (
    ErrorInfo,
    PreparedXa,
    UpstreamFinding,
    UpstreamInfo,
    UpstreamPlacement,
    UpstreamStatus,
)
from cdc.coord.stored import StoredValueUnreadable


class PreparedOut(BaseModel):
    """An XA transaction that is prepared for long: the log cannot shrink behind ``since``."""

    xid: str
    since: str
    log_bytes: int

    @classmethod
    def of(cls, one: PreparedXa) -> PreparedOut:
        """From the store's message."""
        since = to_text(one.since_ms << 18) if one.since_ms else ""
        return cls(xid=one.xid, since=since, log_bytes=one.log_bytes)


class NodeOut(BaseModel):
    """A node of an upstream with its puller's state; the password is masked.

    ``ends_ts``: it leaves when all of it up to this ts of its log is in the log of all nodes.
    """

    name: str
    uri: str
    server_version: str
    server_uuid: str
    state: str
    resolved_ts: int
    resolved_time: str
    position: dict[str, Any]
    log_bytes: int
    error: FeedError | None
    ends_ts: int | None

    @classmethod
    def of(cls, info: UpstreamInfo, status: UpstreamStatus) -> NodeOut:
        """From the store's messages."""
        return cls(
            name=info.node_name,
            uri=mask_uri(info.uri),
            server_version=info.server_version,
            server_uuid=info.server_uuid,
            state=status.state,
            resolved_ts=status.resolved_ts,
            resolved_time=to_text(status.resolved_ts) if status.resolved_ts else "",
            position=status.position,
            log_bytes=status.log_bytes,
            error=FeedError.of(status.error),
            ends_ts=info.ends_ts or None,
        )


class UpstreamOut(BaseModel):
    """An upstream with its puller's state; the password is masked.

    ``first_ts``: its log holds every transaction above it, 0 until that is known. ``waits_for``:
    the node that all others wait for.
    """

    name: str
    kind: str
    carrier: str
    logical_tables: list[str] = Field(default_factory=list)
    uri: str
    server_kind: str
    server_version: str
    server_uuid: str
    create_time: str
    state: str
    first_ts: int
    resolved_ts: int
    resolved_time: str
    position: dict[str, Any]
    log_bytes: int
    clock_skew_ms: int
    ahead_ms: int
    error: FeedError | None
    findings: list[UpstreamFinding]
    prepared: list[PreparedOut]
    waits_for: str
    capture_id: str = Field(description="The capture that it is placed at, in a cluster.")
    held_by: str = Field(description="The capture that pulls it; another one while it moves.")
    nodes: list[NodeOut]

    @classmethod
    def of(
        cls,
        info: UpstreamInfo,
        status: UpstreamStatus,
        nodes: Sequence[UpstreamStatus] = (),
        capture: str = "",
        held_by: str = "",
    ) -> UpstreamOut:
        """From the store's messages; ``nodes``: what the nodes' pullers said, in their order."""
        return cls(
            name=info.name,
            kind=info.kind,
            carrier=info.carrier,
            logical_tables=info.logical_tables,
            uri=mask_uri(info.uri) if info.uri else "",
            server_kind=info.server_kind,
            server_version=info.server_version,
            server_uuid=info.server_uuid,
            create_time=to_text(info.create_time_ms << 18),
            state=status.state,
            first_ts=status.first_ts,
            resolved_ts=status.resolved_ts,
            resolved_time=to_text(status.resolved_ts) if status.resolved_ts else "",
            position=status.position,
            log_bytes=status.log_bytes,
            clock_skew_ms=status.clock_skew_ms,
            ahead_ms=status.ahead_ms,
            error=FeedError.of(status.error),
            findings=info.findings,
            prepared=[PreparedOut.of(one) for one in status.prepared],
            waits_for=status.waits_for,
            capture_id=capture,
            held_by=held_by,
            nodes=[NodeOut.of(n, said) for n, said in zip(info.nodes, nodes, strict=True)],
        )

    @classmethod
    def unreadable(cls, name: str, error: StoredValueUnreadable) -> UpstreamOut:
        """One of which nothing but its name is known."""
        said = ErrorInfo.of(error)
        nothing = UpstreamInfo(name=name, uri="", kind="")
        found = cls.of(nothing, UpstreamStatus(state="unknown", error=said))
        return found.model_copy(update={"create_time": ""})


class PlacementOut(BaseModel):
    """Where an upstream was placed; ``reason``: new, asked, lost, drained, log or uneven."""

    upstream: str
    capture_id: str
    number: int = Field(description="Grows with each move.")
    reason: str
    time: str

    @classmethod
    def of(cls, placed: UpstreamPlacement) -> PlacementOut:
        """From the store's message."""
        return cls(
            upstream=placed.upstream,
            capture_id=placed.capture,
            number=placed.number,
            reason=placed.reason,
            time=to_text(placed.time_ms << 18),
        )
