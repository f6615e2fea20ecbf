"""Logs of upstreams that have gone to another capture, removed once that has one in their place.

No position belongs to such a log any more, and it keeps as much room as it ever took, and the name
to itself. What this process has let go of is removed, and what lies here from before if it says
that the log of this store's upstream was it, and the store has said another one since. All else may
be another cluster's, or that of a store that was lost or restored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cdc.changelog import files, lines, names, origin
from cdc.changelog.errors import LogCorrupt
from cdc.coord.anchors import Anchors
from cdc.coord.contract import Store
from cdc.coord.installation import installation
from cdc.coord.keys import Keys
from cdc.coord.stored import StoredValueUnreadable
from cdc.server import log_folders

_log = logging.getLogger("upstream")


@dataclass(frozen=True, slots=True)
class _Left:
    """The id of a log, and above which revision the store must have said another one."""

    log: str
    above: int = 0


class LeftLogs:
    """Of one capture, by one thread. ``folder`` names the folder of an upstream's log."""

    def __init__(self, store: Store, keys: Keys, folder: Callable[[str], Path]) -> None:
        self._store = store
        self._keys = keys
        self._folder = folder
        self._left: dict[str, _Left] = {}

    def __bool__(self) -> bool:
        """Whether there are some."""
        return bool(self._left)

    def note(self, upstream: str, revision: int) -> None:
        """Its log here is the one, as the store says at ``revision``: written beside the log."""
        value = {"installation": installation(self._store, self._keys), "revision": revision}
        files.replace(self._folder(upstream) / names.STORE, lines.encode(value))

    def add(self, upstream: str) -> None:
        """It was let go of; its log here is written no longer."""
        there = origin.load(self._folder(upstream))
        if there is not None:
            self._left[upstream] = _Left(there.log)

    def find(self, upstreams: Iterable[str]) -> None:
        """Add those of the upstreams that are not here, and have left a log from before."""
        for name in upstreams:
            with suppress(LogCorrupt, StoredValueUnreadable):
                there, revision = origin.load(self._folder(name)), self._noted(name)
                entry = self._store.get(self._keys.upstream_info(name))
                if there is None or not revision or entry is None:
                    continue
                self._left[name] = _Left(there.log, revision)

    def tidy(self, here: Collection[str]) -> None:
        """Remove those that are worth nothing. What is placed ``here`` again goes on with its log.

        Raises StoreFailed, and StoredValueUnreadable where the store's word is not known.
        """
        for name, left in list(self._left.items()):
            if name in here:
                del self._left[name]
            elif self._replaced(name, left):
                log_folders.remove(self._folder(name).parent)
                del self._left[name]
                _log.info("upstream %s: the log that it had here is removed", name)

    def _noted(self, name: str) -> int:
        """At which revision this store said that its log here was the one; 0 if it never did."""
        try:
            found = list(lines.scan((self._folder(name) / names.STORE).read_bytes()))
        except FileNotFoundError:
            return 0
        if len(found) != 1 or found[0].body is None:
            return 0
        value = found[0].parse()
        ours = value["installation"] == installation(self._store, self._keys)
        return int(value["revision"]) if ours else 0

    def _replaced(self, name: str, left: _Left) -> bool:
        """Whether another log stands in its place, or the upstream is no more."""
        if self._store.get(self._keys.upstream_info(name)) is None:
            return True
        revision, current = Anchors(self._store, self._keys, name).current()
        return current is not None and current.log not in ("", left.log) and revision > left.above
