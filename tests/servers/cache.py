"""The cache folder: complete entries only, made by one process at a time.

An entry is a folder. It is built under a temporary name beside its place and renamed, so a
reader never sees half of one; a lock file keeps other processes from building it too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def root() -> Path:
    """Return ``$XDG_CACHE_HOME/tidegate`` (default ``~/.cache/tidegate``); it may not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "tidegate"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` (a file that is made and stays)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def entry(place: Path, build: Callable[[Path], None]) -> Path:
    """Return ``place``, after ``build(folder)`` filled it if it was not there yet."""
    if place.exists():
        return place
    with locked(place.with_name(place.name + ".lock")):
        if place.exists():
            return place
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        try:
            build(folder)
            folder.chmod(0o755)
            folder.rename(place)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return place


def size_mb(folder: Path) -> float:
    """Return what the files below ``folder`` take on disk, in MB."""
    blocks = sum(p.lstat().st_blocks for p in folder.rglob("*") if not p.is_symlink())
    return blocks * 512 / 1e6
