"""The configuration of a changefeed as owner and processor read it.

``FeedInfo.config`` keeps exactly this model's JSON. The ``sink`` part belongs to the sink that
the URI names and is validated by it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cdc.coord.snapshot_config import SnapshotConfig


class DdlPolicy(StrEnum):
    """Which schema changes run by themselves, and which wait for an operator."""

    AUTO = "auto"
    HOLD_DESTRUCTIVE = "hold-destructive"
    HOLD_ALL = "hold-all"

    def holds(self, destructive: bool) -> bool:
        """Whether a change waits for ``cdc cli ddl approve``."""
        return self is DdlPolicy.HOLD_ALL or (self is DdlPolicy.HOLD_DESTRUCTIVE and destructive)


class ShardMode(StrEnum):
    """How the schema changes of tables that become one at the target go together; DM's words."""

    PESSIMISTIC = "pessimistic"
    OPTIMISTIC = "optimistic"


class EventFilterConfig(BaseModel):
    """One of ``filter.event-filters``: which events of the tables that ``matcher`` matches go.

    ``ignore_sql`` are regular expressions over the text of a DDL. The value expressions are SQL.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    matcher: list[str] = Field(min_length=1)
    ignore_event: list[str] = Field(default_factory=list)
    ignore_sql: list[str] = Field(default_factory=list)
    ignore_insert_value_expr: str = ""
    ignore_update_old_value_expr: str = ""
    ignore_update_new_value_expr: str = ""
    ignore_delete_value_expr: str = ""
    ignore_update_only_columns: list[str] = Field(default_factory=list)


class FilterConfig(BaseModel):
    """What passes: table rules, the last match wins; then what is ignored of what they match.

    ``ignore_txn_start_ts`` are ts of transactions, ``ignore_txn_gtid`` their GTIDs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rules: list[str] = Field(default_factory=lambda: ["*.*"])
    ignore_txn_start_ts: list[int] = Field(default_factory=list)
    ignore_txn_gtid: list[str] = Field(default_factory=list)
    event_filters: list[EventFilterConfig] = Field(default_factory=list)


class SyncedStatus(BaseModel):
    """When a changefeed counts as synced; seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    synced_check_interval: int = Field(default=300, gt=0)
    checkpoint_interval: int = Field(default=15, gt=0)


class SchedulerConfig(BaseModel):
    """Whether all captures of a cluster deliver the changefeed's large windows, or its own one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    enable_table_across_nodes: bool = False


class FeedConfig(BaseModel):
    """TiCDC's replica config, as far as it is supported; keys in snake_case, durations in s.

    ``sync_point_interval`` is a whole number of seconds. ``online_ddl``, the two lists of rules and
    ``shard_mode`` are DM's; without a shard mode two tables never become one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    case_sensitive: bool = False
    force_replicate: bool = False
    ignore_ineligible_table: bool = False
    changefeed_error_stuck_duration: float = Field(default=1800.0, gt=0)
    ddl_policy: DdlPolicy = Field(default=DdlPolicy.AUTO, strict=False)
    online_ddl: bool = True
    shadow_table_rules: list[str] | None = None
    trash_table_rules: list[str] | None = None
    shard_mode: ShardMode | None = Field(default=None, strict=False)
    enable_sync_point: bool = False
    sync_point_interval: float = Field(default=600.0, ge=1, multiple_of=1)
    sync_point_retention: float = Field(default=86_400.0, ge=3600)
    filter: FilterConfig = Field(default_factory=FilterConfig)
    synced_status: SyncedStatus = Field(default_factory=SyncedStatus)
    scheduler: SchedulerConfig = Field(default_factory=SchedulerConfig)
    snapshot: SnapshotConfig = Field(default_factory=SnapshotConfig)
    sink: dict[str, Any] = Field(default_factory=dict)

    @property
    def sync_interval_ms(self) -> int:
        """Between sync points, 0 if there are none."""
        return int(self.sync_point_interval) * 1000 if self.enable_sync_point else 0

    @property
    def merging(self) -> bool:
        """Whether several tables may become one at the target."""
        return self.shard_mode is not None

    @property
    def by_name(self) -> bool:
        """Whether a table of the target may have other columns than each that becomes it."""
        return self.shard_mode is ShardMode.OPTIMISTIC
