"""Numba functions over arrays, nothing else; the only place that imports numba.

Numba's cache looks at the file of a function, not at those that it calls or takes constants from.
So the folder of the cache has a digest of all kernel sources in its name: a changed source, or
bounds checking, never meets stale machine code.
"""

from __future__ import annotations

import os
import sys
from hashlib import blake2b
from pathlib import Path

_MARK = "kernels-"


def _digest() -> str:
    digest = blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    digest.update(os.environ.get("NUMBA_BOUNDSCHECK", "").encode())
    return digest.hexdigest()


def _choose_cache() -> None:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(chosen) if chosen else home / "tidegate/numba"
    if base.name.startswith(_MARK):
        base = base.parent  # inherited from the process that started this one
    folder = str(base / f"{_MARK}{_digest()}")
    os.environ["NUMBA_CACHE_DIR"] = folder
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = folder


_choose_cache()
