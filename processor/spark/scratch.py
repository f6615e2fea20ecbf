"""Where Spark keeps what it writes: folders that only the server's user can enter.

Spark pickles every window's descriptors, with the sink's password, into its scratch folder, and
its Python daemon takes code to run from whoever reaches its Unix socket.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

# Spark refuses a longer folder, as a socket's path has at most 108 bytes.
_SOCKET_FOLDER = 60
_ELSEWHERE = "sockets-in"


def prepare(folder: Path, master: str) -> dict[str, str]:
    """New private folders below ``folder``, as Spark's configuration; older ones are removed.

    Sockets lie there too if their path is short enough for a socket, else in a folder with a random
    name among the temporary ones. The workers of a cluster choose their own.
    """
    _remove_older(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.absolute()))
    conf = {"spark.local.dir": str(scratch)}
    if not master.startswith("local"):
        return conf
    sockets = scratch
    if len(bytes(sockets)) > _SOCKET_FOLDER:
        sockets = Path(tempfile.mkdtemp(prefix="tidegate-"))
        (folder / _ELSEWHERE).write_text(str(sockets), "utf-8")
    return conf | {"spark.python.unix.domain.socket.dir": str(sockets)}


def _remove_older(folder: Path) -> None:
    noted = folder / _ELSEWHERE
    if noted.is_file():
        # Not ours any more if somebody made it anew: then nothing in it can be removed.
        shutil.rmtree(noted.read_text("utf-8"), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
