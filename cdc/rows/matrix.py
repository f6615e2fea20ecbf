"""What plans are laid out in: rows of integer matrices and constant bytes, from a first plan on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.int64]
"""int64[:, :], C-contiguous."""

Bytes = npt.NDArray[np.uint8]

# Kernels copy constants by wide words, and may read beyond the last.
_PADDING = 64
NO_CONSTANTS: Bytes = np.zeros(_PADDING, np.uint8)


def no_rows(width: int) -> Matrix:
    """A matrix to begin with."""
    return np.empty((0, width), np.int64)


class MatrixRows:
    """Rows of a matrix that goes on where ``before`` ends; row numbers count from its first."""

    def __init__(self, before: Matrix) -> None:
        self._before = before
        self._rows: list[list[int]] = []

    def __len__(self) -> int:
        return len(self._before) + len(self._rows)

    def add(self, rows: Iterable[list[int]]) -> None:
        """Append rows, as wide as those before."""
        self._rows += rows

    def build(self) -> Matrix:
        """All rows."""
        if not self._rows:
            return self._before
        return np.concatenate((self._before, np.array(self._rows, np.int64)))


class Constants:
    """Constant bytes behind those of ``before``; offsets count from its first byte."""

    def __init__(self, before: Bytes) -> None:
        self._before = before
        self._added = bytearray()
        self._known: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """The offset of these bytes."""
        if data not in self._known:
            self._known[data] = len(self._before) + len(self._added)
            self._added += data
        return self._known[data]

    def build(self) -> Bytes:
        """uint8[:], with 64 bytes of padding at its end."""
        if not self._added:
            return self._before
        added = np.frombuffer(bytes(self._added) + bytes(_PADDING), np.uint8)
        return np.concatenate((self._before, added))
