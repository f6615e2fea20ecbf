"""Logs of upstreams that have gone to another capture, removed once that has one in their place.

No position belongs to such a log any more, and it keeps as much room as it ever took, and the name
to itself. Only what this process has let go of is removed: what lies there from before may be
another cluster's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path

from cdc.changelog import origin
from cdc.coord.anchors import Anchors
from cdc.coord.contract import Store
from cdc.coord.keys import Keys
from cdc.server import log_folders

_log = logging.getLogger("upstream")


class LeftLogs:
    """Of one capture, by one thread. ``folder`` names the folder of an upstream's log."""

    def __init__(self, store: Store, keys: Keys, folder: Callable[[str], Path]) -> None:
        self._store = store
        self._keys = keys
        self._folder = folder
        # By upstream the id of its log here.
        self._left: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Whether there are some."""
        return bool(self._left)

    def add(self, upstream: str) -> None:
        """It was let go of; its log here is written no longer."""
        there = origin.load(self._folder(upstream))
        if there is not None:
            self._left[upstream] = there.log

    def tidy(self, here: Collection[str]) -> None:
        """Remove those that are worth nothing. What is placed ``here`` again goes on with its log.

        Raises StoreFailed, and StoredValueUnreadable where the store's word is not known.
        """
        for name, log in list(self._left.items()):
            if name in here:
                del self._left[name]
            elif self._replaced(name, log):
                log_folders.remove(self._folder(name).parent)
                del self._left[name]
                _log.info("upstream %s: the log that it had here is removed", name)

    def _replaced(self, name: str, log: str) -> bool:
        """Whether another log stands in its place, or the upstream is no more."""
        if self._store.get(self._keys.upstream_info(name)) is None:
            return True
        _, current = Anchors(self._store, self._keys, name).current()
        return current is not None and current.log not in ("", log)
