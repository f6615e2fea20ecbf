"""Settings of a change log."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ChangelogSettings(BaseModel):
    """How large segments are, how long they stay, and what the log may use of the disk.

    ``group_commit_ms`` is for the puller: the longest that appended bytes wait for a commit.
    ``disk_budget_bytes`` 0 means that only ``free_space_reserve_bytes`` limits the log.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    segment_bytes: int = Field(default=128 << 20, ge=4096)
    group_commit_ms: int = Field(default=50, ge=1, le=10_000)
    # How often segments that nobody needs any more are looked for.
    collect_s: float = Field(default=30.0, gt=0)
    # How often the store is told where another log could begin in this one's place.
    anchor_s: float = Field(default=10.0, gt=0)
    keep_s: int = Field(default=24 * 3600, ge=0)
    disk_budget_bytes: int = Field(default=0, ge=0)
    free_space_reserve_bytes: int = Field(default=1 << 30, ge=0)
    # The most schema changes that a worker follows from a snapshot to its place.
    snapshot_statements: int = Field(default=1000, ge=1)
    # A long idle log would otherwise grow a manifest line at every heartbeat for ever.
    manifest_bytes: int = Field(default=1 << 20, ge=1024)
