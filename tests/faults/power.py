"""A disk that forgets what was not synced: what a folder may be after the power went.

Whoever writes below ``folder`` in this process is watched. At each sync the folder is noted as it
is in memory, with what each file surely is on the disk. From such a moment the folders are made
that a host may find when it starts again: behind what is sure, a file has lost its tail, or has
zeros in it, or has all of it, each file by itself; a file whose name was not synced may be missing,
and one that was replaced may be the one before.
"""

from __future__ import annotations

import os
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_BLOCK = 512


@dataclass
class Moment:
    """A folder just before a sync: bytes in memory, and bytes that are sure, by name."""

    now: dict[str, bytes]
    sure: dict[str, bytes]
    note: Any = None


@dataclass
class Disk:
    """Watches; ``note`` is kept with each moment."""

    folder: Path
    moments: list[Moment] = field(default_factory=list)
    note: Any = None
    _synced: dict[int, bytes] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.RLock)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Take the place of the system's syncs."""
        patch.setattr(os, "fsync", self._sync)
        patch.setattr(os, "fdatasync", self._sync)

    def _sync(self, fd: int) -> None:
        with self._lock:
            self.remember()
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if path.is_dir():
                self._names = {f.name: f.stat().st_ino for f in _files(path)}
            elif path.parent == self.folder:
                self._synced[os.fstat(fd).st_ino] = path.read_bytes()

    def remember(self) -> None:
        """Note the present moment."""
        with self._lock:
            now = {f.name: f.read_bytes() for f in _files(self.folder)}
            sure = {n: self._synced.get(inode, b"") for n, inode in self._names.items()}
            self.moments.append(Moment(now, sure, self.note))


def _files(folder: Path) -> list[Path]:
    return [f for f in folder.iterdir() if f.is_file()]


def after_power_loss(moment: Moment, folder: Path, chosen: random.Random) -> None:
    """Make one of the folders that there may be."""
    folder.mkdir()
    for name in sorted(moment.now.keys() | moment.sure.keys()):
        now, sure = moment.now.get(name), moment.sure.get(name)
        if now is None or (sure is not None and not now.startswith(sure)):
            # Removed or replaced since: the one or the other.
            kept = chosen.choice([now, sure])
        elif sure is None and chosen.random() < 0.3:
            continue
        else:
            kept = _torn(now, len(sure or b""), chosen)
        if kept is not None:
            (folder / name).write_bytes(kept)


def _torn(data: bytes, sure: int, chosen: random.Random) -> bytes:
    """``data`` with something wrong behind its first ``sure`` bytes, or nothing."""
    if sure >= len(data):
        return data
    kind = chosen.randrange(4)
    at = chosen.randrange(sure, len(data) + 1)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes(len(data) - at)
    if kind == 2:
        # A block in the middle was not written, those behind it were.
        end = min(len(data), at + _BLOCK)
        return data[:at] + bytes(end - at) + data[end:]
    return data
