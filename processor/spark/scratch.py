"""Where Spark keeps what it writes: folders that only the server's user can enter.

Spark pickles every window's descriptors, with the sink's password, into its scratch folder, and
its Python daemon takes code to run from whoever reaches its Unix socket.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

# Spark refuses a longer folder, as a socket's path has at most 108 bytes.
_SOCKET_FOLDER = 60
_ELSEWHERE = "sockets-in"


class Folders(NamedTuple):
    """``conf``: Spark's configuration of them; ``temporary``: that of the driver's JVM."""

    conf: dict[str, str]
    temporary: Path


def prepare(folder: Path, master: str) -> Folders:
    """Empty private folders below ``folder``; what older ones had is removed.

    The JVM's temporary folder keeps its path, as a JVM does over several contexts. It is among the
    temporary ones, with a random name, where a socket below ``folder`` had too long a path: sockets
    are in it, of a local master by its configuration, and of a cluster's driver by default. The
    workers of a cluster choose their own.
    """
    elsewhere = _noted(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder.absolute() / "jvm"
    if len(bytes(temporary)) > _SOCKET_FOLDER:
        temporary = elsewhere or Path(tempfile.mkdtemp(prefix="tidegate-"))
        (folder / _ELSEWHERE).write_text(str(temporary), "utf-8")
        _empty(temporary)
    else:
        temporary.mkdir(mode=0o700)
        if elsewhere is not None:
            shutil.rmtree(elsewhere, ignore_errors=True)
    conf = {"spark.local.dir": tempfile.mkdtemp(dir=folder.absolute())}
    if master.startswith("local"):
        conf["spark.python.unix.domain.socket.dir"] = str(temporary)
    return Folders(conf, temporary)


def _noted(folder: Path) -> Path | None:
    """The folder elsewhere of an earlier time, if it is still ours alone."""
    try:
        noted = Path((folder / _ELSEWHERE).read_text("utf-8"))
        found = noted.lstat()
    except OSError:
        return None
    # Somebody else can make it anew once it is gone.
    ours = found.st_uid == os.geteuid() and found.st_mode == stat.S_IFDIR | 0o700
    return noted if ours else None


def _empty(folder: Path) -> None:
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        else:
            one.unlink(missing_ok=True)
