"""The data directory: one server at a time, private to the server's user.

It holds every row of every table and the passwords of all servers, so whoever else could open it
is shut out before anything in it is used: what is ours and open is closed, what is another
user's is refused.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from cdc.base.errors import InvalidError
from cdc.changelog import origin
from cdc.changelog.errors import LogCorrupt

_OTHERS = 0o077
_FOLDER, _FILE = 0o700, 0o600


class DataDirInUse(InvalidError):
    """Another server works in this data directory."""

    code = "TG:ErrDataDirInUse"


class DataDirUnusable(InvalidError):
    """The data directory cannot be made or written."""

    code = "TG:ErrDataDirUnusable"


class DataDirNotPrivate(InvalidError):
    """Something in the data directory is, or may be, another user's."""

    code = "TG:ErrDataDirNotPrivate"


class DataDir:
    """Holds an exclusive flock on ``<data-dir>/lock`` until closed, or until the process dies.

    ``mended`` counts the files and folders that others could open until now.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
            self.mended = int(_close_to_others(path, path.stat()))
            self._fd = _lock_file(path / "lock")
        except OSError as e:
            raise DataDirUnusable(
                e.strerror or str(e), object=str(path), hint="choose another --data-dir"
            ) from None
        try:
            self._take()
            self.mended += _close_all(path)
        except BaseException:
            os.close(self._fd)
            raise

    def _take(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise DataDirInUse(
                f"a server with pid {holder} works here",
                object=str(self.path),
                hint="stop it, or choose another --data-dir",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    @property
    def store(self) -> Path:
        """File of the embedded store."""
        return self.path / "store" / "meta.db"

    @property
    def session(self) -> Path:
        """File that names the lease of the capture that works here, or did last."""
        return self.path / "session"

    @property
    def logs(self) -> Path:
        """Folder of all change logs."""
        return self.path / "log"

    @property
    def token(self) -> Path:
        """File of the API's token."""
        return self.path / "token"

    @property
    def spark(self) -> Path:
        """Folder of Spark's scratch files and sockets."""
        return self.path / "spark"

    def log(self, upstream: str) -> Path:
        """The change log of an upstream, or of a node by ``upstream.node``."""
        name, _, node = upstream.partition(".")
        return self.logs / name / "nodes" / node if node else self.logs / name / "0"

    def origins(self) -> dict[str, str]:
        """The log that there is of each upstream, by name; of one of an earlier version nothing."""
        found: dict[str, str] = {}
        for folder in self.logs.iterdir() if self.logs.is_dir() else ():
            # Of one that is damaged it is said when it is to be written.
            with suppress(LogCorrupt):
                made = origin.load(self.log(folder.name))
                if made is not None:
                    found[folder.name] = made.log
        return found

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._fd)


def _lock_file(path: Path) -> int:
    # Opened where it is, never where a link leads: its content is overwritten.
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    if path.is_symlink():
        raise DataDirNotPrivate(
            "is a symbolic link", object=str(path), hint="remove it; no server needs it to be one"
        )
    return os.open(path, flags, _FILE)


def _close_to_others(path: Path, found: os.stat_result) -> bool:
    """Take group's and others' rights from what is ours; whether there were any."""
    _check_owner(path, found)
    if not found.st_mode & _OTHERS:
        return False
    path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    return True


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise DataDirNotPrivate(
            f"belongs to the user with id {found.st_uid}, not to the server's, {os.geteuid()}",
            object=str(path),
            hint="give it to the server's user with chown, or choose another --data-dir",
        )


def _close_all(top: Path) -> int:
    """The same of everything below; how many had to be closed.

    Links to folders are followed, as a log may lie on another disk; each folder is looked at once.
    """
    mended, waiting, seen = 0, [top], set()
    while waiting:
        folder = waiting.pop()
        # What is gone meanwhile is a dying Spark's, or that of a worker going down.
        with suppress(FileNotFoundError):
            at = folder.stat()
            if (at.st_dev, at.st_ino) in seen:
                continue
            seen.add((at.st_dev, at.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    mended += _close_entry(entry, waiting)
    return mended


def _close_entry(entry: os.DirEntry[str], folders: list[Path]) -> int:
    path = Path(entry.path)
    with suppress(FileNotFoundError):
        found = entry.stat(follow_symlinks=False)
        _check_owner(path, found)
        if stat.S_ISLNK(found.st_mode):
            # A link has no rights of its own, but whose it is says who chose where it leads.
            found = path.stat()
        mended = _close_to_others(path, found)
        if stat.S_ISDIR(found.st_mode):
            folders.append(path)
        return int(mended)
    return 0
