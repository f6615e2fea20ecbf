"""The files of a log as a reader finds them: where they are written, or in a copy that is filled.

A reader opens and maps files of a folder. Where that is the log's own folder they are there; a copy
(``cdc.changelog.remote.mirror``) has them once it was asked for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cdc.changelog.state import SegmentInfo


class LogFiles(Protocol):
    """What a reader asks for before it opens a file of ``folder``.

    All raise what keeps a copy from being filled; FileNotFoundError where the log has no such file.
    """

    @property
    def folder(self) -> Path:
        """Where the files lie."""

    def manifest(self) -> None:
        """Have the manifest as it is now."""

    def grown(self, name: str, length: int) -> None:
        """Have the first ``length`` bytes of a file that only grows."""

    def whole(self, name: str) -> None:
        """Have a file that is only ever replaced; one that the log does not have is not there."""

    def snapshots(self) -> None:
        """Have the names of all schema snapshots; what is in one is there behind :meth:`whole`."""

    def ranges(
        self, info: SegmentInfo, offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> None:
        """Have these byte ranges of a segment, whose file is at least as long as is committed."""

    def again(self, name: str) -> bool:
        """Give up what there is of a file that is damaged; whether it can be had once more."""

    def beside(self, folder: str) -> LogFiles:
        """The files of another log, by its path as seen from this one."""

    def forget_before(self, segment: int) -> None:
        """Segments with lower numbers are not read any more."""

    def close(self) -> None:
        """Nothing is read any more."""


class FilesInPlace:
    """The files of a log in the folder where they are written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifest(self) -> None:
        """It is there."""

    def grown(self, name: str, length: int) -> None:
        """It is there."""

    def whole(self, name: str) -> None:
        """It is there."""

    def snapshots(self) -> None:
        """They are there."""

    def ranges(
        self, info: SegmentInfo, offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> None:
        """They are there."""

    def again(self, name: str) -> bool:
        """There is no other."""
        return False

    def beside(self, folder: str) -> FilesInPlace:
        """As of :class:`LogFiles`."""
        return FilesInPlace(self.folder / folder)

    def forget_before(self, segment: int) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""
