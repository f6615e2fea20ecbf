"""How kernels are compiled, decided once.

``_nrt=False``: without it numba keeps an atomic reference count per array argument and call in
every function with several exits, which made encoding four times slower; such functions cannot
make arrays.
``forceinline``: an array argument is seven machine words, so a call of a small function costs more
than its body.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit

small: Any = partial(njit, nogil=True, _nrt=False, forceinline=True)()
"""Inlined into its caller."""

rare: Any = partial(njit, nogil=True, _nrt=False)()
"""Called: large, or seldom needed."""


def kernel(signature: Any) -> Any:
    """An entry point: compiled at import for its signature, loaded from the cache after that."""
    return njit(signature, nogil=True, _nrt=False, cache=True)
