"""Where numba keeps machine code: a folder for each kernel module and all that it is made of.

Numba's own cache looks at the file of a function, not at those that it calls or takes constants
from. Here the folder has a digest of the module and of every kernel module that it imports, also
through others, in its name: a changed source, or bounds checking, never meets stale machine code,
and an edit compiles no more than what depends on it.
"""

from __future__ import annotations

import os
import re
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba.core.caching import _CacheLocator

_ROOT = Path(__file__).parent
_PACKAGE = "cdc.kernels"
_IMPORT = re.compile(
    r"^[ \t]*(?:from +([\w.]+) +import +(\([^)]*\)|.*)|import +(.*))", re.MULTILINE
)


@cache
def _imports(path: Path) -> frozenset[Path]:
    """Kernel modules that a kernel module imports; constants of data files are their module's.

    Python's own parser would take a third of a second at the start of each process.
    """
    found: set[Path] = set()
    for package, names, modules in _IMPORT.findall(path.read_text("utf-8")):
        dotted = modules.split(",") if modules else [package]
        dotted += [f"{package}.{n.strip()}" for n in names.strip("()").split(",") if n.strip()]
        for name in dotted:
            module = name.split()[0]
            if not module.startswith(_PACKAGE + "."):
                continue
            below = _ROOT.joinpath(*module.removeprefix(_PACKAGE + ".").split("."))
            found |= {p for p in (below.with_suffix(".py"), below / "__init__.py") if p.is_file()}
    return frozenset(found)


@cache
def _digest(path: Path) -> str:
    closure, new = {path}, [path]
    while new:
        more = _imports(new.pop()) - closure
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
