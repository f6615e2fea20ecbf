"""The API's token, and how the command line of the server's user finds it.

The token lies in the data directory. Below the user's state folder a server leaves, by its address,
where that is; the command line looks there. Only the user can write or read either.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from cdc.base.hosts import is_loopback

_TOKEN = re.compile(r"[A-Za-z0-9_\-]{32,}\Z")
_BYTES = 32
_LOOPBACK_NAMES = ("127.0.0.1", "::1", "localhost")
_WILDCARDS = ("0.0.0.0", "::")


def load_or_make(path: Path) -> str:
    """The token in that file; a new one if it has none."""
    with suppress(FileNotFoundError):
        if found := read(path):
            return found
    made = secrets.token_urlsafe(_BYTES)
    _write(path, made)
    return made


def read(path: Path) -> str:
    """The token in a file; empty if it holds none. Raises OSError."""
    text = path.read_text("utf-8", errors="replace").strip()
    return text if _TOKEN.match(text) else ""


def state_folder() -> Path | None:
    """Where servers of this user are noted; None for a user without a home."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "tidegate" / "servers"
    try:
        return Path.home() / ".local" / "state" / "tidegate" / "servers"
    except RuntimeError:
        return None


def note(addresses: Iterable[tuple[str, int]], token: Path) -> bool:
    """Say that the server at these addresses has its token there; False if that cannot be kept."""
    folder = state_folder()
    if folder is None:
        return False
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_gone(folder)
        for host, port in addresses:
            if is_loopback(host) or host in _WILDCARDS:
                # An older server of this port may have been noted under another of these names.
                for name in (*_LOOPBACK_NAMES, *_WILDCARDS):
                    (folder / _name(name, port)).unlink(missing_ok=True)
            _write(folder / _name(host, port), str(token.absolute()))
    except OSError:
        return False
    return True


def find(host: str, port: int) -> str:
    """The token of this user's server at an address; empty if none is known."""
    folder = state_folder()
    hosts = [host]
    if is_loopback(host):
        hosts += [*_LOOPBACK_NAMES, *_WILDCARDS]
    for name in hosts:
        with suppress(OSError):
            noted = folder / _name(name, port) if folder else None
            if noted and noted.stat().st_uid == os.geteuid():
                return read(Path(noted.read_text("utf-8")))
    return ""


def _name(host: str, port: int) -> str:
    # A host is at most 253 characters long, but an address may hold what a file name cannot.
    plain = re.sub(r"[^a-z0-9.\-]", "-", host.lower().strip("[]"))
    digest = hashlib.sha256(host.lower().strip("[]").encode()).hexdigest()[:8]
    return f"{plain[:200]}_{port}_{digest}"


def _forget_gone(folder: Path) -> None:
    for noted in folder.iterdir():
        with suppress(OSError):
            if not Path(noted.read_text("utf-8")).exists():
                noted.unlink()


def _write(path: Path, text: str) -> None:
    fd, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(fd, "w") as file:
        file.write(f"{text}\n" if _TOKEN.match(text) else text)
    os.replace(name, path)
