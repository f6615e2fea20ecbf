"""A capture's session: its lease, its registration, and whether it is the owner."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cdc.base.clock import Clock, SystemClock
from cdc.base.parts import Parts
from cdc.coord import election
from cdc.coord.contract import (
    Held,
    LeaseExpired,
    Put,
    Store,
    StoreFailed,
    WatchCompacted,
)
from cdc.coord.election import Candidate, Role
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo

_log = logging.getLogger("session")
_LOOK_S = 2.0
# Of its length: a session that was kept alive later than this nearly ended.
_NEARLY = 2 / 3
# Until it is ready: there may be no owner, and nothing else would wake it.
_YIELDS_S = 0.2


def end_earlier(store: Store, address: str, note: Path) -> None:
    """End the session of whoever worked in this data directory before, and has not said good-bye.

    The directory's lock tells that it is dead; its lease would last some seconds more.
    """
    with suppress(OSError, ValueError, KeyError):
        noted = json.loads(note.read_text("utf-8"))
        if noted["store"] == _digest(address):
            store.revoke(int(noted["lease"]))


def note_lease(note: Path, address: str, lease: int) -> None:
    """Write down whose session this data directory's capture has."""
    note.write_text(json.dumps({"store": _digest(address), "lease": lease}), "utf-8")


def _digest(address: str) -> str:
    """Tells addresses apart; they may hold a password."""
    return hashlib.sha256(address.encode()).hexdigest()[:16]


class CaptureSession:
    """Keeps the lease alive and campaigns; calls back from its own threads.

    ``on_owner(token)`` when this capture has become the owner; ``on_lost()`` when the lease is
    gone: others take this capture for dead, so everything must stop. It is called as well when the
    owner is told to own nothing, once it has ``handed_over()`` what is placed at it. ``ready()``
    says whether it could deliver as owner, ``lends()`` how many tasks of others it runs once it is;
    ``drained`` that its process was told to own nothing before it began anew.
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
        ready: Callable[[], bool] = lambda: True,
        lends: Callable[[], int] = lambda: 0,
        handed_over: Callable[[], bool] = lambda: True,
        drained: bool = False,
        clock: Clock | None = None,
        parts: Parts | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._clock = clock
        self._store = store
        self._keys = keys
        self._ttl_s = ttl_s
        self._on_owner = on_owner
        self._on_lost = on_lost
        self._ready = ready
        self._lends = lends
        self._handed_over = handed_over
        self.drained = drained
        # What was kept alive lasts from when it was asked for, not from the answer.
        self._kept_s = clock.monotonic()
        self.lease = store.grant(ttl_s)
        self._me = Candidate(info.id, self.lease)
        self._info = info
        self._register(info)
        self._stop = threading.Event()
        self._watch = store.watch(keys.owner, store.revision() + 1)
        self._announced = 0
        parts = parts or Parts()
        self._keeper = parts.make("session-keepalive", self._keep, self._stop)
        self._elector = parts.make("session-election", self._campaign, self._stop)

    def _register(self, info: CaptureInfo) -> None:
        key = self._keys.capture(info.id)
        puts = [Put(key, info.model_dump_json().encode(), self.lease)]
        if self.drained:
            puts.append(Put(self._keys.drained(info.id), b"", self.lease))
        self._store.txn([], puts)

    def announce_ready(self) -> None:
        """Tell others that this capture can deliver."""
        ready = self._info.model_copy(update={"ready": True, "lends": self._lends()})
        put = Put(self._keys.capture(ready.id), ready.model_dump_json().encode(), self.lease)
        # What fails here is met by the threads of the session too, and said again.
        with suppress(LeaseExpired, StoreFailed):
            self._store.txn([], [put])
            self._info = ready

    @property
    def held(self) -> Held | None:
        """What the owner holds, if that is this capture, as far as it knows."""
        me = self._me
        return Held(self._keys.owner, me.token) if me.role is Role.OWNER else None

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
        asked_s = self._clock.monotonic()
        left_s = self._kept_s + self._ttl_s - asked_s
        try:
            self._store.keepalive(self.lease, max(0.1, left_s))
        except LeaseExpired as e:
            _log.error("%s", e)
            self._on_lost()
            return False
        except StoreFailed as e:
            # By then the store may have ended it and given what it held to others.
            if self._clock.monotonic() - self._kept_s >= self._ttl_s:
                _log.error("the session was not prolonged for %g s: %s", self._ttl_s, e)
                self._on_lost()
                return False
            raise
        after_s = self._clock.monotonic() - self._kept_s
        if after_s > _NEARLY * self._ttl_s:
            _log.warning(
                "the session of %g s was prolonged only after %.1f s: machine or store are slow",
                self._ttl_s,
                after_s,
            )
        self._kept_s = asked_s
        if self._ready() and not self._info.ready:
            self.announce_ready()
        return True

    def _drains(self) -> bool:
        """Whether it is to hand over, now."""
        me = self._me.capture
        self.drained = election.drained(self._store, self._keys, me)
        if not (self._announced and self.drained and election.others(self._store, self._keys, me)):
            return False
        if not self._handed_over():
            # It still has them taken by others, as the owner: what it leaves with would be lost.
            return False
        _log.info("drained: another capture is to be the owner")
        return True

    def _campaign(self) -> bool:
        try:
            self._me = election.run(self._store, self._keys, self._me, ready=self._ready())
        except LeaseExpired:
            # The other thread meets it too, and says so.
            return False
        if self._me.role is Role.OWNER and self._me.token != self._announced:
            _log.info("this capture is the owner now, token %d", self._me.token)
            self._on_owner(self._me.token)
            self._announced = self._me.token
        elif self._me.role is not Role.OWNER and self._announced:
            _log.error("another capture is the owner now")
            self._on_lost()
            return False
        if self._drains():
            self._on_lost()
            return False
        self._elector.well()
        try:
            # Whoever waits looks again by itself too, should an event ever be missed.
            wait_s = _LOOK_S if self._ready() else _YIELDS_S
            self._watch.next(None if self._announced and not self.drained else wait_s)
        except WatchCompacted:
            self._watch = self._store.watch(self._keys.owner, self._store.revision() + 1)
        return True
