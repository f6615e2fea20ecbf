"""A capture's session: its lease, its registration, and whether it is the owner."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from cdc.base.parts import Parts
from cdc.coord import election
from cdc.coord.contract import LeaseExpired, Put, Store, StoreFailed, WatchCompacted
from cdc.coord.election import Candidate, Role
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo

_log = logging.getLogger("session")


class CaptureSession:
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
        parts: Parts | None = None,
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
        self._announced = 0
        parts = parts or Parts()
        self._keeper = parts.make("session-keepalive", self._keep, self._stop)
        self._elector = parts.make("session-election", self._campaign, self._stop)

    @property
    def is_owner(self) -> bool:
        """Whether this capture holds the owner key, as far as it knows."""
        return self._me.role is Role.OWNER

    def start(self) -> None:
        """Begin to keep alive and to campaign."""
        self._keeper.start()
        self._elector.start()

    def stop(self) -> None:
        """Resign and end the lease."""
        self._stop.set()
        self._watch.close()
        for part in (self._keeper, self._elector):
            part.join(5.0)
        # Who cannot say that it leaves is found gone at the next start.
        with suppress(StoreFailed):
            election.resign(self._store, self._keys, self._me)
            self._store.revoke(self.lease)

    def _keep(self) -> bool:
        if self._stop.wait(self._ttl_s / 3):
            return False
        try:
            self._store.keepalive(self.lease)
        except LeaseExpired as e:
            _log.error("%s", e)
            self._on_lost()
            return False
        return True

    def _campaign(self) -> bool:
        try:
            self._me = election.run(self._store, self._keys, self._me)
        except LeaseExpired:
            # The other thread meets it too, and says so.
            return False
        if self._me.role is Role.OWNER and self._me.token != self._announced:
            _log.info("this capture is the owner now, token %d", self._me.token)
            self._on_owner(self._me.token)
            self._announced = self._me.token
        self._elector.well()
        try:
            self._watch.next()
        except WatchCompacted:
            self._watch = self._store.watch(self._keys.owner, self._store.revision() + 1)
        return True
