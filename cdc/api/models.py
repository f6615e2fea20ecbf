"""Bodies of requests and answers; names as TiCDC's OpenAPI v2 (snake_case)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from cdc.api.reading import Reading
from cdc.base.secrets import MASK, is_secret_key, mask_uri
from cdc.base.ts import to_text
from cdc.coord.messages import (
    CaptureInfo,
    ConfigChange,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    PreparedXa,
    UpstreamFinding,
    UpstreamInfo,
    UpstreamPlacement,
    UpstreamStatus,
)
from cdc.coord.names import CARRIER_NAMES, NODE_NAME, UPSTREAM_NAME
from cdc.coord.stored import StoredValueUnreadable
from cdc.server.logging_setup import LOGGERS
from cdc.server.settings import LogLevel
from owner.requests import ChangefeedUpdate, NewChangefeed

Item = TypeVar("Item")
# Strict: without it `false` is taken as 0, which stands for "now" or "never", and "1" as 1.
_AskedTs = Annotated[int, Field(strict=True, ge=0)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class CreateChangefeed(_Request):
    """``POST /changefeeds``.

    ``replace_installation``: the id of an installation that is gone for good; what its changefeed
    of this id has left in the sink's ledger is removed.
    """

    changefeed_id: str = ""
    upstream: str
    sink_uri: str = Field(default="", repr=False)
    start_ts: _AskedTs = 0
    target_ts: _AskedTs = 0
    replica_config: dict[str, Any] = Field(default_factory=dict, repr=False)
    replace_installation: str = ""

    def request(self) -> NewChangefeed:
        """As the owner takes it."""
        return NewChangefeed(
            self.changefeed_id,
            self.upstream,
            self.sink_uri,
            self.start_ts,
            self.target_ts,
            self.replica_config,
            self.replace_installation,
        )


class UpdateChangefeed(_Request):
    """``PUT /changefeeds/{id}``: what is None stays."""

    sink_uri: str | None = Field(default=None, repr=False)
    target_ts: _AskedTs | None = None
    replica_config: dict[str, Any] | None = Field(default=None, repr=False)

    def request(self) -> ChangefeedUpdate:
        """As the owner takes it."""
        return ChangefeedUpdate(self.sink_uri, self.target_ts, self.replica_config)


class ResumeChangefeed(_Request):
    """``POST /changefeeds/{id}/resume``; 0: from the checkpoint.

    ``rewind``: from where the sink's ledger stands, which has gone back.
    """

    overwrite_checkpoint_ts: _AskedTs | Literal["now"] = 0
    rewind: bool = False


class CreateNode(_Request):
    """One of an upstream's nodes; ``start``: as of the upstream, for this node."""

    name: str = Field(json_schema_extra={"pattern": f"^{NODE_NAME}$"})
    uri: SecretStr
    start: str | None = None


class CreateUpstream(_Request):
    """``POST /upstreams``; ``start``: a GTID set, ``file:position`` or a time.

    One of kind ``shards`` or ``cluster`` has ``nodes`` in the place of ``uri``; ``carrier``, of the
    latter: where the nodes' binlogs have commit TSOs, ``timestamp`` if nothing is said;
    ``logical_tables``: patterns of the names of its tables' parts, if it has logical tables.
    """

    name: str = Field(json_schema_extra={"pattern": f"^{UPSTREAM_NAME}$"})
    kind: Literal["single", "shards", "cluster"] = "single"
    carrier: str = Field(default="", json_schema_extra={"enum": ["", *CARRIER_NAMES]})
    logical_tables: list[str] = Field(default_factory=list)
    uri: SecretStr = SecretStr("")
    nodes: list[CreateNode] = Field(default_factory=list)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    start: str | None = None


class _UpdateServer(_Request):
    uri: SecretStr | None = None
    user: Annotated[str, Field(min_length=1)] | None = None
    password: SecretStr | None = None


class UpdateNode(_UpdateServer):
    """How one of an upstream's nodes is reached; what is None stays."""

    name: str = Field(json_schema_extra={"pattern": f"^{NODE_NAME}$"})


class UpdateUpstream(_UpdateServer):
    """``PUT /upstreams/{name}``: how the same server is reached; what is None stays.

    ``uri`` replaces the whole URI, ``user`` and ``password`` those in it; an empty ``ca``, ``cert``
    or ``key`` takes the file's name away. Of kind ``shards`` these are of all nodes, and ``nodes``
    has what is of one alone, also its URI.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    nodes: list[UpdateNode] = Field(default_factory=list)


class LogLevelChange(_Request):
    """``POST /log``; ``logger``: the part of the server whose level it is, else that of all."""

    log_level: LogLevel
    logger: str = Field(default="", json_schema_extra={"enum": ["", *LOGGERS]})


class Reason(BaseModel):
    """One of several things that are wrong with a request."""

    error_msg: str
    error_code: str
    object: str
    hint: str


class ApiError(BaseModel):
    """Body of every answer that is not 2xx."""

    error_msg: str
    error_code: str
    kind: str
    object: str = ""
    hint: str = ""
    reasons: list[Reason] = Field(
        default_factory=list, description="Of TG:ErrSeveralReasons: all of them; else left out."
    )


class Empty(BaseModel):
    """``{}``."""


class FeedError(BaseModel):
    """An error of a changefeed or an upstream."""

    time: str
    code: str
    kind: str
    message: str
    object: str
    position: str
    hint: str

    @classmethod
    def of(cls, error: ErrorInfo | None) -> FeedError | None:
        """From the store's form."""
        if error is None:
            return None
        fields = error.model_dump(exclude={"time_ms"})
        return cls(time=to_text(error.time_ms << 18) if error.time_ms else "", **fields)


class StoppedTable(BaseModel):
    """A table that waits for the operator, below ``ts``."""

    table: str
    ts: int
    error: FeedError | None


def shown_state(state: FeedState) -> FeedState:
    """``pending`` is shown as ``warning``, as TiCDC does."""
    return FeedState.WARNING if state is FeedState.PENDING else state


def shown_config(value: Any) -> Any:
    """The configuration without the values of secret keys."""
    if isinstance(value, dict):
        return {k: MASK if v and is_secret_key(k) else shown_config(v) for k, v in value.items()}
    return [shown_config(v) for v in value] if isinstance(value, list) else value


class ChangefeedSummary(BaseModel):
    """One line of ``GET /changefeeds``."""

    id: str
    namespace: str = "default"
    upstream: str
    state: FeedState
    checkpoint_tso: int
    checkpoint_time: str
    error: FeedError | None

    @classmethod
    def of(cls, info: FeedInfo, status: FeedStatus) -> ChangefeedSummary:
        """From the store's messages."""
        return cls(
            id=info.id,
            upstream=info.upstream,
            state=shown_state(info.state),
            checkpoint_tso=status.checkpoint_ts,
            checkpoint_time=to_text(status.checkpoint_ts),
            error=FeedError.of(info.error),
        )

    @classmethod
    def unreadable(cls, name: str, error: StoredValueUnreadable) -> ChangefeedSummary:
        """One of which nothing but its name is known; it does not run."""
        return cls(
            id=name,
            upstream="",
            state=FeedState.FAILED,
            checkpoint_tso=0,
            checkpoint_time="",
            error=FeedError.of(ErrorInfo(**error.to_dict(), time_ms=0)),
        )


class SnapshotState(StrEnum):
    """How far the rows are that were there before a changefeed."""

    COPYING = "copying"
    DELIVERING = "delivering"
    DELIVERED = "delivered"


class SnapshotShown(BaseModel):
    """Rows that were there before a changefeed: what of them is read, and where they lie.

    ``rows`` and ``bytes`` are those that were read, and behind ``ended`` those that are delivered.
    ``base_ts`` and ``ts``: between which they lie in the order, 0 until all are copied.
    ``reading``: how long it may take, None where nothing is read.
    """

    state: SnapshotState
    tables: int
    tables_done: int
    rows: int
    bytes: int
    began: str
    ended: str
    base_ts: int
    ts: int
    reading: Reading | None

    @classmethod
    def of(cls, info: FeedInfo, status: FeedStatus) -> SnapshotShown | None:
        """From the store's messages; None of a changefeed that copies nothing."""
        progress = status.snapshot
        if progress is None:
            return None
        state = SnapshotState.COPYING
        if not info.copies:
            delivered = status.checkpoint_ts >= info.snapshot_ts
            state = SnapshotState.DELIVERED if delivered else SnapshotState.DELIVERING
        return cls(
            state=state,
            tables=progress.tables,
            tables_done=progress.tables_done,
            rows=progress.rows,
            bytes=progress.bytes,
            began=_time(progress.began_ms),
            ended=_time(progress.ended_ms),
            base_ts=progress.base_ts,
            ts=progress.ts,
            reading=Reading.of(progress) if info.copies else None,
        )


def _time(at_ms: int) -> str:
    return to_text(at_ms << 18) if at_ms else ""


class TaskStatus(BaseModel):
    """A capture that runs a changefeed; ``table_ids`` of the change log's dictionary."""

    capture_id: str
    table_ids: list[int]


class AdminJob(IntEnum):
    """TiCDC's number for what was last asked of a changefeed: it runs, stops, is gone, is done."""

    NONE = 0
    STOP = 1
    REMOVE = 3
    FINISH = 4


_ADMIN_JOBS = {
    FeedState.NORMAL: AdminJob.NONE,
    FeedState.WARNING: AdminJob.NONE,
    FeedState.PENDING: AdminJob.STOP,
    FeedState.STOPPED: AdminJob.STOP,
    FeedState.FAILED: AdminJob.STOP,
    FeedState.REMOVED: AdminJob.REMOVE,
    FeedState.FINISHED: AdminJob.FINISH,
}


class ConfigChangeShown(BaseModel):
    """What a changefeed that runs is about to take; ``ts``: from there on, 0 if not chosen yet."""

    ts: int
    sink_uri: str
    config: dict[str, Any]

    @classmethod
    def of(cls, change: ConfigChange | None) -> ConfigChangeShown | None:
        """From the store's message."""
        if change is None:
            return None
        uri = mask_uri(change.sink_uri)
        return cls(ts=change.ts, sink_uri=uri, config=shown_config(change.config))


class ChangefeedInfo(BaseModel):
    """A changefeed in full; the password of its sink URI is masked."""

    id: str
    namespace: str = "default"
    upstream: str
    sink_uri: str
    create_time: str
    start_ts: int
    target_ts: int
    resolved_ts: int
    checkpoint_ts: int
    checkpoint_time: str
    barrier_ts: int
    state: FeedState
    error: FeedError | None
    stopped_tables: list[StoppedTable]
    epoch: int
    creator_version: str
    config: dict[str, Any]
    snapshot: SnapshotShown | None
    admin_job_type: AdminJob
    task_status: list[TaskStatus]
    change: ConfigChangeShown | None

    @classmethod
    def of(
        cls, info: FeedInfo, status: FeedStatus, tasks: Sequence[TaskStatus] = ()
    ) -> ChangefeedInfo:
        """From the store's messages, and who runs it."""
        return cls(
            admin_job_type=_ADMIN_JOBS[info.state],
            task_status=list(tasks),
            change=ConfigChangeShown.of(info.change),
            id=info.id,
            upstream=info.upstream,
            sink_uri=mask_uri(info.sink_uri),
            create_time=to_text(info.create_time_ms << 18),
            start_ts=info.start_ts,
            target_ts=info.target_ts,
            resolved_ts=status.resolved_ts,
            checkpoint_ts=status.checkpoint_ts,
            checkpoint_time=to_text(status.checkpoint_ts),
            barrier_ts=status.barrier_ts,
            state=shown_state(info.state),
            error=FeedError.of(info.error),
            stopped_tables=[
                StoppedTable(table=s.table, ts=s.ts, error=FeedError.of(s.error))
                for s in status.stopped_tables
            ],
            epoch=info.epoch,
            creator_version=info.creator_version,
            config=shown_config(info.config),
            snapshot=SnapshotShown.of(info, status),
        )


class CreatedChangefeed(ChangefeedInfo):
    """Answer to ``POST /changefeeds``; ``warnings``: what the user should know about it."""

    warnings: list[str] = Field(default_factory=list)


class AppliedTable(BaseModel):
    """``method`` is the sink's word, ``reason`` why it is this one."""

    table: str
    method: str
    reason: str


class Synced(BaseModel):
    """``GET /changefeeds/{id}/synced``; times in UTC."""

    synced: bool
    sink_checkpoint_ts: str
    puller_resolved_ts: str
    last_synced_ts: str
    now_ts: str
    info: str


class Processor(BaseModel):
    """One line of ``GET /processors``: a capture that delivers a changefeed."""

    namespace: str = "default"
    changefeed_id: str
    capture_id: str


class ProcessorTables(BaseModel):
    """``GET /processors/{id}/{capture}``: ids in the dictionary of the change log, and names."""

    table_ids: list[int]
    tables: list[str]


class ChangefeedStatus(BaseModel):
    """``GET /changefeeds/{id}/status``."""

    state: FeedState
    resolved_ts: int
    checkpoint_ts: int
    last_error: FeedError | None
    last_warning: FeedError | None

    @classmethod
    def of(cls, info: FeedInfo, status: FeedStatus) -> ChangefeedStatus:
        """From the store's messages."""
        error, failed = FeedError.of(info.error), info.state is FeedState.FAILED
        return cls(
            state=shown_state(info.state),
            resolved_ts=status.resolved_ts,
            checkpoint_ts=status.checkpoint_ts,
            last_error=error if failed else None,
            last_warning=None if failed else error,
        )


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

    ``waits_for``: the node that all others wait for.
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
        said = ErrorInfo(**error.to_dict(), time_ms=0)
        nothing = UpstreamInfo(name=name, uri="", kind="")
        found = cls.of(nothing, UpstreamStatus(state="unknown", error=said))
        return found.model_copy(update={"create_time": ""})


class CaptureOut(BaseModel):
    """One line of ``GET /captures``."""

    id: str
    is_owner: bool
    address: str
    cluster_id: str
    version: str
    is_drained: bool = Field(description="It was told to own nothing until it is started anew.")
    upstreams: list[str] = Field(description="The upstreams that are placed at it.")

    @classmethod
    def of(
        cls,
        info: CaptureInfo,
        owner: str,
        drained: Collection[str],
        placed: Iterable[UpstreamPlacement] = (),
    ) -> CaptureOut:
        """From the store's messages; ``owner`` and ``drained`` are ids."""
        return cls(
            id=info.id,
            is_owner=info.id == owner,
            is_drained=info.id in drained,
            address=info.address,
            cluster_id=info.cluster_id,
            version=info.version,
            upstreams=sorted(p.upstream for p in placed if p.capture == info.id),
        )


class MoveUpstream(BaseModel):
    """``POST /upstreams/{name}/move``: the capture that is to have it."""

    capture_id: str = Field(min_length=1, max_length=128)


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


class Drained(BaseModel):
    """``PUT /captures/{id}/drain``: how many tables the capture still delivers."""

    current_table_count: int


class ServerStatus(BaseModel):
    """``GET /status``."""

    version: str
    git_hash: str = ""
    id: str
    cluster_id: str
    pid: int
    is_owner: bool
    liveness: int


class Tso(BaseModel):
    """``POST /tso``."""

    timestamp: int
    logic_time: int
    tso: int


class Page(BaseModel, Generic[Item]):
    """``{"total": n, "items": […]}``; ``total`` counts those of the other pages too."""

    total: int
    items: list[Item]

    @classmethod
    def of(cls, items: Sequence[Item]) -> Page[Item]:
        """All items on one page."""
        return cls(total=len(items), items=list(items))
