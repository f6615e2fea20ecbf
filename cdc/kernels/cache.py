"""Where numba keeps machine code: a folder for each kernel module and all that it is made of.

Numba's own cache looks at the file of a function, not at those that it calls or takes constants
from. Here the folder has a digest of the module and of every kernel module that it imports, also
through others, in its name: a changed source, or bounds checking, never meets stale machine code,
and an edit compiles no more than what depends on it.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba.core.caching import _CacheLocator

from cdc.kernels.imports import imports

_ROOT = Path(__file__).parent


@cache
def _digest(path: Path) -> str:
    closure, new = {path}, [path]
    while new:
        more = imports(new.pop()) - closure
        closure |= more
        new += more
    digest = blake2b(digest_size=8)
    for one in sorted(closure):
        digest.update(str(one.relative_to(_ROOT)).encode() + b"\0" + one.read_bytes())
    digest.update(os.environ.get("NUMBA_BOUNDSCHECK", "").encode())
    return digest.hexdigest()


def folder() -> Path:
    """The base of all: ``NUMBA_CACHE_DIR``, or our part of the user's cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("NUMBA_CACHE_DIR") or home / "tidegate/numba")


class Locator(_CacheLocator):  # type: ignore[misc]
    """Numba asks it by ``NUMBA_CACHE_LOCATOR_CLASSES``."""

    def __init__(self, line: int, path: Path) -> None:
        self._line = line
        name = "-".join(path.relative_to(_ROOT).with_suffix("").parts)
        self._digest = _digest(path)
        self._folder = folder() / f"{name}-{self._digest}"

    def get_cache_path(self) -> str:
        """The module's folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """The folder's name says it already."""
        return self._digest

    def get_disambiguator(self) -> str:
        """Functions of one name differ by their line."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Locator | None:
        """None for functions of others."""
        path = Path(py_file)
        if not path.is_relative_to(_ROOT):
            return None
        locator = cls(py_func.__code__.co_firstlineno, path)
        locator.ensure_cache_path()
        return locator
