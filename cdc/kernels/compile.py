"""How kernels are compiled, decided once.

``_nrt=False``: without it numba keeps an atomic reference count per array argument and call in
every function with several exits, which made encoding four times slower; such functions cannot
make arrays.
``forceinline``: an array argument is seven machine words, so a call of a small function costs more
than its body.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

from numba import njit
from numba.core.compiler_lock import global_compiler_lock

small: Any = partial(njit, nogil=True, _nrt=False, forceinline=True)()
"""Inlined into its caller."""

rare: Any = partial(njit, nogil=True, _nrt=False)()
"""Called: large, or seldom needed."""


class Compiled:
    """A function for one signature, loaded from the cache or compiled when it is first needed.

    Most of a process's start would else be kernels that it never calls: those of other formats, and
    all that are only called by kernels, whose machine code has them already.
    """

    def __init__(
        self, python: Callable[..., Any], signature: Any, *, entry: bool, counted: bool
    ) -> None:
        update_wrapper(self, python)
        self.entry = entry
        # What is left out would be as the caller has it where that is being compiled.
        how = {"nogil": True, "cache": True, "forceinline": False, "_nrt": counted}
        self._make = partial(njit(signature, **how), python)
        self._dispatcher: Any = None
        _all.append(self)

    def load(self) -> Any:
        """Numba's dispatcher."""
        # Whoever compiles a caller has this lock and asks here: with another one two could wait.
        with global_compiler_lock:
            if self._dispatcher is None:
                self._dispatcher = self._make()
        return self._dispatcher

    def __call__(self, *values: Any) -> Any:
        return (self._dispatcher or self.load())(*values)

    @property
    def _numba_type_(self) -> Any:
        # What numba asks a value of that another function calls.
        return self.load()._numba_type_


_all: list[Compiled] = []


def load_module(module: str) -> None:
    """Load all that a module compiles."""
    for one in _all:
        if one.__module__ == module:
            one.load()


def load_entries(between: Callable[[], None] | None = None) -> None:
    """Load every entry point that was imported so far, for the processes that are forked next.

    ``between`` is called behind each; what it forks loads the others when it needs them.
    """
    for one in _all:
        if one.entry:
            one.load()
            if between is not None:
                between()


def kernel(signature: Any, *, counted: bool = False) -> Any:
    """An entry point, called from Python; ``counted``: with reference counts of its arrays."""
    return lambda python: Compiled(python, signature, entry=True, counted=counted)


def function(signature: Any) -> Any:
    """Called by kernels."""
    return lambda python: Compiled(python, signature, entry=False, counted=True)
