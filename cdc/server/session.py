"""A capture's session: its lease, its registration, and whether it is the owner."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from cdc.coord import election
from cdc.coord.contract import LeaseExpired, Put, Store, WatchCompacted
from cdc.coord.election import Candidate, Role
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo

_log = logging.getLogger("session")


class Session:
    """Keeps the lease alive and campaigns; calls back from its own threads.

    ``on_owner(token)`` when this capture has become the owner; ``on_lost()`` when the lease is
    gone: others take this capture for dead, so everything must stop.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        info: CaptureInfo,
        ttl_s: float,
        *,
        on_owner: Callable[[int], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._keys = keys
        self._ttl_s = ttl_s
        self._on_owner = on_owner
        self._on_lost = on_lost
        self.lease = store.grant(ttl_s)
        self._me = Candidate(info.id, self.lease)
        value = info.model_dump_json().encode()
        store.txn([], [Put(keys.capture(info.id), value, self.lease)])
        self._stop = threading.Event()
        self._watch = store.watch(keys.owner, store.revision() + 1)
        self._threads = [
            threading.Thread(target=self._keep, name="session-keepalive", daemon=True),
            threading.Thread(target=self._campaign, name="session-election", daemon=True),
        ]

    @property
    def is_owner(self) -> bool:
        """Whether this capture holds the owner key, as far as it knows."""
        return self._me.role is Role.OWNER

    def start(self) -> None:
        """Begin to keep alive and to campaign."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Resign and end the lease."""
        self._stop.set()
        self._watch.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)
        election.resign(self._store, self._keys, self._me)
        self._store.revoke(self.lease)

    def _keep(self) -> None:
        while not self._stop.wait(self._ttl_s / 3):
            try:
                self._store.keepalive(self.lease)
            except LeaseExpired as e:
                _log.error("%s", e)
                self._on_lost()
                return

    def _campaign(self) -> None:
        while not self._stop.is_set():
            before = self._me
            try:
                self._me = election.run(self._store, self._keys, self._me)
            except LeaseExpired:
                return
            if self._me.role is Role.OWNER and self._me.token != before.token:
                _log.info("this capture is the owner now, token %d", self._me.token)
                self._on_owner(self._me.token)
            try:
                self._watch.next()
            except WatchCompacted:
                self._watch = self._store.watch(self._keys.owner, self._store.revision() + 1)
