"""Settings of the processor and of Spark."""

from __future__ import annotations

import os
import re
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

MIB = 1 << 20
# local[N] and local[N,F] of Spark's documentation; local-cluster[…] says otherwise what it has.
_LOCAL_CORES = re.compile(r"local\[(\*|[1-9]\d{0,3})(?:,\d+)?\]\Z")


class SparkStart(StrEnum):
    """When Spark is started."""

    AT_ONCE = "at-once"
    WHEN_NEEDED = "when-needed"


class ProcessorSettings(BaseModel):
    """How windows are cut and jobs are run. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    spark_master: str = "local[*]"
    spark_conf: dict[str, str] = Field(default_factory=dict)
    # A backlog is delivered in windows of this many log bytes: large enough that Spark's job
    # floor (some 40 ms) does not count, small enough that a lost window is soon done again.
    window_bytes: int = Field(default=192 * MIB, ge=1 * MIB)
    # So long a job may take for each window's worth of bytes; then it is cancelled, and delivery
    # recovers. Longer than any sink waits by itself: what is left is a worker that hangs.
    job_timeout_s: float = Field(default=600.0, gt=0.0)
    # A job without any executor is given up behind so long, and the application is registered anew
    # with the cluster: a master that was started anew does not know of us. 0 waits for ever.
    executors_timeout_s: float = Field(default=60.0, ge=0.0)
    # Below this, a window is one task: a second one would cost more than it saves.
    single_task_bytes: int = Field(default=4 * MIB, ge=0)
    # The least pause between two windows; behind small ones there is a short one anyhow.
    min_interval_s: float = Field(default=0.0, ge=0.0)
    # So often the owner hears of progress that nothing waits for.
    report_interval_s: float = Field(default=0.2, ge=0.0)
    watermark_interval_s: float = Field(default=1.0, gt=0.0)
    # Transactional ids of a changefeed, as a multiple of Spark's parallelism: workers that are
    # dying still hold theirs while their successors start.
    slots_per_core: int = Field(default=4, ge=1)
    # Spark ends workers that nobody has used for a minute, and the next row pays for new ones,
    # which read the log's schema anew. So often they are used; 0 lets them go.
    keep_workers_s: float = Field(default=20.0, ge=0.0)
    # Whether windows of one task, and chunks of rows that are copied, go to workers that stay,
    # where Spark's master is local, and are no jobs: one costs as much as some thousand rows.
    resident_workers: bool = True
    # When the JVM of a local master is started: with the capture, or by a window that resident
    # workers are not for, so long behind the first of these. Until it runs they deliver all.
    spark_start: SparkStart = SparkStart.WHEN_NEEDED
    spark_start_after_s: float = Field(default=60.0, ge=0.0)
    # Whether workers of a local master also deliver windows of other captures of the cluster, for
    # changefeeds that ask for it (scheduler.enable-table-across-nodes).
    lend_workers: bool = True
    # What copies of rows leave free of the disk; None: as much as the change log does.
    copy_reserve_bytes: int | None = Field(default=None, ge=0)
    stop_timeout_s: float = 8.0
    retry_first_s: float = 0.2
    retry_max_s: float = 10.0

    @property
    def local(self) -> bool:
        """Whether Spark's workers are on this host, started by the driver itself."""
        return self.spark_master.startswith("local")

    @property
    def spark_waits(self) -> bool:
        """Whether Spark is not started before something needs it."""
        waits = self.spark_start is SparkStart.WHEN_NEEDED
        return waits and self.local and self.resident_workers

    @property
    def local_cores(self) -> int | None:
        """How many tasks a local master runs at once, before it can say; None of another one."""
        if self.spark_master == "local":
            return 1
        named = _LOCAL_CORES.match(self.spark_master)
        if named is None:
            return None
        return len(os.sched_getaffinity(0)) if named[1] == "*" else int(named[1])
