"""A worker's transactional id: one of a changefeed's numbered slots, held by a file lock.

Every Spark Python worker that delivers for a changefeed holds one slot for its life
(ARCHITECTURE.md, decision 11). The lock files lie with the log. A worker that does not see them is
given a number by the capture, which holds the lock for it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from cdc.base.errors import TransientError
from cdc.changelog.remote.connection import LogConnection


class NoSlotFree(TransientError):
    """More workers than slots: some are still going down."""

    code = "TG:ErrNoSlotFree"


class HeldSlot(Protocol):
    """A claimed slot; ``number`` is below the count of slots."""

    number: int

    def release(self) -> None:
        """Gives the slot back."""


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


class GivenSlot:
    """A slot that the capture holds for a worker elsewhere."""

    def __init__(self, number: int, connection: LogConnection, name: str) -> None:
        self.number = number
        self._connection = connection
        self._name = name

    @classmethod
    def claim(cls, connection: LogConnection, folder: str, count: int) -> GivenSlot:
        """A free slot below ``folder``, which is the capture's. Raises ``TG:ErrNoSlotFree``."""
        name = f"{connection.access.name(folder)}/slots"
        given = connection.send("POST", name, {"count": count})
        return cls(int(given["number"]), connection, name)

    def release(self) -> None:
        """Gives the slot back; if nobody hears of it, it is spent until the next recovery."""
        with suppress(TransientError, FileNotFoundError):
            self._connection.send("DELETE", f"{self._name}/{self.number}", {"release": True})


class GivenSlots:
    """The slots that a capture holds for workers elsewhere.

    Whether such a worker still lives cannot be told from here, so a slot is given to another one
    only once it was given back, or in another epoch.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[Path, dict[int, Slot]] = {}

    def claim(self, folder: Path, count: int) -> int:
        """The first free slot below ``folder``. Raises ``TG:ErrNoSlotFree``."""
        with self._guard:
            for other in [f for f in self._held if f.parent == folder.parent and f != folder]:
                if int(other.name) < int(folder.name):
                    self._give_up(other)
            slot = Slot.claim(folder, count)
            self._held.setdefault(folder, {})[slot.number] = slot
            return slot.number

    def release(self, folder: Path, number: int) -> None:
        """Its worker has given it back."""
        with self._guard:
            slot = self._held.get(folder, {}).pop(number, None)
            if slot is not None:
                slot.release()

    def _give_up(self, folder: Path) -> None:
        for slot in self._held.pop(folder).values():
            slot.release()


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
