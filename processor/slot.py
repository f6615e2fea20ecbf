"""A worker's transactional id: one of a changefeed's numbered slots, held by a file lock.

Every Spark Python worker that delivers for a changefeed holds one slot for its life
(ARCHITECTURE.md, decision 11). The lock files lie with the log, which every worker can read.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from cdc.base.errors import TransientError


class NoSlotFree(TransientError):
    """More workers than slots: some are still going down."""

    code = "TG:ErrNoSlotFree"


class Slot:
    """A claimed slot; ``number`` is below ``count``. The lock goes with the process."""

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self._fd = fd

    @classmethod
    def claim(cls, folder: Path, count: int) -> Slot:
        """The first free slot below ``folder``. Raises ``TG:ErrNoSlotFree``."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(count):
            fd = os.open(folder / f"slot-{number}", os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            return cls(number, fd)
        raise NoSlotFree(
            f"all {count} slots are held",
            object=folder.name,
            hint="raise slots-per-core if more workers than that are meant to run",
        )

    def release(self) -> None:
        """Gives the slot back."""
        os.close(self._fd)


def remove_older(folder: Path, epoch: int) -> None:
    """Remove the slot folders of epochs below ``epoch``, which must have been fenced.

    A worker of theirs that still runs keeps its lock, and makes the folder anew if it needs one:
    it is stopped by the ledger's epoch, not by these files.
    """
    if not folder.is_dir():
        return
    for old in folder.iterdir():
        if old.name.isdecimal() and int(old.name) < epoch:
            shutil.rmtree(old, ignore_errors=True)
