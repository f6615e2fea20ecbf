"""Rows in the form that a sink sends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows ``order[first:last]`` as bytes; ``data`` is valid until the next is taken.

    ``base_ms`` and ``max_ms``: commit time of the first and of the latest of them, in milliseconds.
    """

    data: memoryview
    first: int
    last: int
    base_ms: int
    max_ms: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.last - self.first
