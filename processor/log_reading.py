"""How a worker reads a log: the files where they are, or a copy that the capture fills."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from cdc.changelog.log_files import FilesInPlace, LogFiles
from cdc.changelog.reader import ChangeLog
from cdc.changelog.remote.access import LogAccess
from cdc.changelog.remote.connection import LogConnection
from cdc.changelog.remote.mirror import LogMirror
from cdc.snapshot.log import over_log
from processor.slot import GivenSlot, HeldSlot, Slot
from processor.task_messages import FeedPlan

_COPIES = "tidegate-log"
# Folders that Spark makes for one executor and removes with it; YARN names them otherwise.
_SCRATCH = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")


@cache
def scratch() -> Path:
    """A private folder of this executor, which all its workers share; else of this worker."""
    for name in _SCRATCH:
        if given := os.environ.get(name, ""):
            folder = Path(given.split(",")[0]) / _COPIES
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return folder
    made = Path(tempfile.mkdtemp(prefix=f"{_COPIES}-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


class LogReading:
    """The log of a changefeed, as a worker has it under a plan, and the slots beside it."""

    def __init__(self, plan: FeedPlan, copies: Path | None = None) -> None:
        self._plan = plan
        self._connection: LogConnection | None = None
        files: LogFiles = FilesInPlace(Path(plan.log_folder))
        if plan.access is not None:
            mirror = LogMirror.open(plan.access, plan.log_folder, copies or scratch())
            self._connection = mirror.connection
            files = mirror
        rows = plan.rows
        beside = os.path.relpath(rows.folder, plan.log_folder) if rows is not None else ""
        self.log: ChangeLog = over_log(files, files.beside(beside) if rows else None, rows)

    def claim(self, plan: FeedPlan) -> HeldSlot:
        """A slot of a plan's epoch. Raises ``TG:ErrNoSlotFree``, or what keeps the capture away."""
        if self._connection is None:
            return Slot.claim(Path(plan.run_folder), plan.slots)
        return GivenSlot.claim(self._connection, plan.run_folder, plan.slots)


def send(access: LogAccess, made: Path, path: str) -> None:
    """Bring a file to where the capture wants it. Raises LogUnreachable and the like."""
    connection = LogConnection(access)
    try:
        connection.put(access.name(path), made)
    finally:
        connection.close()
