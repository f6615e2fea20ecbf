"""When a copy reads no more rows for now: it is paused, at an operator's limit, or out of room."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.errors import TransientError
from cdc.coord.messages import SnapshotProgress
from cdc.coord.snapshot_config import SnapshotConfig
from cdc.snapshot.limits import RowRate
from cdc.snapshot.servers import SourceServers
from processor.chunks_at_once import CopyStopped

_POLL_S = 0.05
# So often the upstream is asked whether it is less busy.
_LOOK_S = 1.0
_ASK_S = 30.0


class CopyRoomSpent(TransientError):
    """Copied rows would take what must stay free of the disk."""

    code = "TG:ErrSnapshotDiskSpent"


class CopyLimits:
    """Holds back one copy, of one thread.

    ``go_on`` is unset while it is paused, if it can be; ``stopping`` ends it, and whatever waits
    here raises CopyStopped then.
    """

    def __init__(
        self,
        config: SnapshotConfig,
        clock: Clock,
        stopping: threading.Event,
        go_on: threading.Event | None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._stopping = stopping
        self._go_on = go_on
        self._rate = RowRate(config.max_rows_per_second)

    def read(self, rows: int, began_s: float) -> None:
        """Count rows whose reading began at ``began_s`` (monotonic)."""
        self._rate = self._rate.read(rows, began_s)

    def wait(self, seconds: float) -> None:
        """Wait so long, 0 not at all; raises CopyStopped where the copy is to end."""
        if self._stopping.wait(seconds):
            raise CopyStopped

    def hold_back(self, servers: SourceServers) -> None:
        """Wait until more may be read."""
        while True:
            self.await_go_on(servers)
            wait_s = self.rest_s(servers)
            if not wait_s:
                return
            self.wait(min(wait_s, _LOOK_S))

    def rest_s(self, servers: SourceServers) -> float:
        """Seconds after which it is looked again whether more may be read; 0: it may."""
        if self._paused:
            return _POLL_S
        if wait_s := self._rate.wait_s(self._clock.monotonic()):
            return wait_s
        most, lag_s = self._config.max_threads_running, self._config.max_replica_lag
        busy = bool(most) and servers.threads_running() > most
        return _LOOK_S if busy or (lag_s and servers.replica_lag_s() > lag_s) else 0.0

    def await_go_on(self, servers: SourceServers) -> None:
        """Wait while it is paused."""
        asked_s = self._clock.monotonic()
        while self._paused:
            self.wait(_POLL_S)
            if self._clock.monotonic() - asked_s > _ASK_S:
                # A server ends a connection that says nothing for long.
                servers.threads_running()
                asked_s = self._clock.monotonic()

    @property
    def _paused(self) -> bool:
        return self._go_on is not None and not self._go_on.is_set()


def check_room(feed: str, folder: Path, reserve_bytes: int, read: SnapshotProgress) -> None:
    """Raise CopyRoomSpent where the disk has no more than what it must keep free."""
    free = shutil.disk_usage(folder).free
    if free < reserve_bytes:
        raise CopyRoomSpent(
            f"the disk has {free} bytes left, {reserve_bytes} are reserved;"
            f" {read.rows} rows of {read.bytes} bytes were copied and are removed",
            object=f"changefeed {feed}",
            hint="give the data directory more disk, or leave tables out of snapshot.tables",
        )
