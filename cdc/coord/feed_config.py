"""The configuration of a changefeed as owner and processor read it.

``FeedInfo.config`` keeps exactly this model's JSON. The ``sink`` part belongs to the sink that
the URI names and is validated by it.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class FilterConfig(BaseModel):
    """What passes: table rules, the last match wins."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rules: list[str] = Field(default_factory=lambda: ["*.*"], min_length=1)


class SyncedStatus(BaseModel):
    """When a changefeed counts as synced; seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    synced_check_interval: int = Field(default=300, gt=0)
    checkpoint_interval: int = Field(default=15, gt=0)


class FeedConfig(BaseModel):
    """TiCDC's replica config, as far as it is supported; keys in snake_case, durations in s."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    case_sensitive: bool = False
    force_replicate: bool = False
    ignore_ineligible_table: bool = False
    changefeed_error_stuck_duration: float = Field(default=1800.0, gt=0)
    filter: FilterConfig = Field(default_factory=FilterConfig)
    synced_status: SyncedStatus = Field(default_factory=SyncedStatus)
    sink: dict[str, Any] = Field(default_factory=dict)
