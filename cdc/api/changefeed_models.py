"""A changefeed in answers; names as TiCDC's OpenAPI v2 (snake_case)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Any

from pydantic import BaseModel, Field

from cdc.api.reading import Reading
from cdc.base.secrets import MASK, is_secret_key, mask_uri
from cdc.base.ts import to_text
from cdc.coord.messages import (
    ConfigChange,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
)
from cdc.coord.stored import StoredValueUnreadable


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
            error=FeedError.of(ErrorInfo.of(error)),
        )


class SnapshotState(StrEnum):
    """How far the rows are that were there before a changefeed."""

    COPYING = "copying"
    DELIVERING = "delivering"
    INDEXING = "indexing"
    DELIVERED = "delivered"


class RowsAgainShown(BaseModel):
    """Rows that were lost in the middle of their delivery, and are copied again.

    ``snapshot``: the number of the one that does so, "" where nothing was left to copy.
    ``rows_at_most``: so many rows may come twice.
    """

    snapshot: str
    began: str
    rows_at_most: int
    delivered: bool

    @classmethod
    def of(cls, info: FeedInfo) -> RowsAgainShown | None:
        """From the store's message."""
        found = info.again
        if found is None:
            return None
        return cls(
            snapshot=found.order,
            began=_time(found.time_ms),
            rows_at_most=found.rows,
            delivered=found.delivered,
        )


class SnapshotShown(BaseModel):
    """Rows that were there before a changefeed: what of them is read, and where they lie.

    ``rows`` and ``bytes`` are those that were read, and behind ``ended`` those that are delivered.
    ``base_ts`` and ``ts``: between which they lie in the order, 0 until all are copied.
    ``reading``: how long it may take, None where nothing is read. ``again``: what of them was lost.
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
    again: RowsAgainShown | None

    @classmethod
    def of(cls, info: FeedInfo, status: FeedStatus) -> SnapshotShown | None:
        """From the store's messages; None of a changefeed that copies nothing."""
        progress = status.snapshot
        if progress is None:
            return None
        state = SnapshotState.COPYING
        if not info.copies:
            delivered = status.checkpoint_ts >= info.snapshot_ts and not info.lacks_rows
            state = SnapshotState.DELIVERED if delivered else SnapshotState.DELIVERING
            if delivered and info.indexes_due:
                state = SnapshotState.INDEXING
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
            again=RowsAgainShown.of(info),
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


class PlacedTable(BaseModel):
    """A table that was moved to a capture, whose workers deliver it while it takes tasks."""

    table: str
    capture_id: str

    @classmethod
    def all_of(cls, info: FeedInfo) -> list[PlacedTable]:
        """Those of a changefeed, the last one moved last."""
        return [cls(table=table, capture_id=capture) for table, capture in info.placed.items()]


class ChangefeedInfo(BaseModel):
    """A changefeed in full; the password of its sink URI is masked.

    ``sync_point_ts``: the last sync point that its target has noted, 0 if none.
    """

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
    sync_point_ts: int
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
    placed_tables: list[PlacedTable]

    @classmethod
    def of(
        cls, info: FeedInfo, status: FeedStatus, tasks: Sequence[TaskStatus] = ()
    ) -> ChangefeedInfo:
        """From the store's messages, and who runs it."""
        return cls(
            admin_job_type=_ADMIN_JOBS[info.state],
            task_status=list(tasks),
            change=ConfigChangeShown.of(info.change),
            placed_tables=PlacedTable.all_of(info),
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
            sync_point_ts=status.sync_point_ts,
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
