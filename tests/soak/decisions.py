"""Whose decisions the store of a cluster has: only those of who holds what they are about.

An observer of its own reads every event of the store, in order of revision: which capture the
puller's key of an upstream names at a moment, which one is told to deliver a changefeed of it, and
which one says where another log of it could begin.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection

from cdc.base.errors import TransientError
from cdc.coord.contract import KeyEvent, Store, Watch, WatchCompacted
from cdc.coord.keys import Keys, last
from tests.soak.plan import Fault, Kind

_LOOK_S = 0.5
_ASSIGNMENTS = Keys().prefix + "task/assignment/"


class Decisions:
    """Of the changefeeds ``feeds``, all of one upstream, from now on."""

    def __init__(self, store: Store, upstream: str, feeds: Collection[str]) -> None:
        self.seen = 0
        self._store = store
        self._keys = Keys()
        self._puller = self._keys.puller(upstream)
        self._anchors = self._keys.anchor_prefix(upstream)
        self._feeds = frozenset(feeds)
        self._faults: list[Fault] = []
        self._stop = threading.Event()
        revision = store.revision()
        held = store.get(self._puller)
        self._holder = held.value.decode() if held is not None else ""
        self._watch: Watch = store.watch(self._keys.cluster_prefix, revision + 1)
        self._thread = threading.Thread(target=self._follow, name="decisions")
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._stop.set()
        self._watch.close()
        self._thread.join()

    def faults(self) -> tuple[Fault, ...]:
        """What was decided by who held nothing, and whether there was anything to see."""
        if self.seen:
            return tuple(self._faults)
        return (*self._faults, Fault(Kind.LACKING, "nothing was ever decided"))

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                for event in self._watch.next(_LOOK_S):
                    self._take(event)
            except TransientError:
                continue
            except WatchCompacted as error:
                self._faults.append(Fault(Kind.LACKING, str(error)))
                return

    def _take(self, event: KeyEvent) -> None:
        if event.key == self._puller:
            self._holder = event.value.decode() if event.value is not None else ""
            return
        capture = self._decided_by(event)
        if not capture:
            return
        self.seen += 1
        if capture != self._holder:
            whose = f"{self._holder}'s" if self._holder else "nobody's"
            self._faults.append(Fault(Kind.UNHELD, f"{event.key} of {capture}, upstream {whose}"))

    def _decided_by(self, event: KeyEvent) -> str:
        """The capture that must hold the upstream for this to be written; empty for all else."""
        if event.value is None:
            return ""
        if event.key.startswith(self._anchors):
            # The first one is nobody's.
            return str(json.loads(event.value).get("capture", ""))
        if event.key.startswith(_ASSIGNMENTS) and last(event.key) in self._feeds:
            return event.key.split("/")[-2] if json.loads(event.value)["run"] else ""
        return ""
