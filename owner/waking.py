"""What wakes the owner: changes of the store, captures that come and go, DDLs of logs.

It sleeps until something that matters has changed: a changefeed, a report, an upstream, a capture
(the store's watches), or a log's resolved ts (one waiting thread for each upstream in use).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence, Set
from contextlib import suppress

from pydantic import ValidationError

from cdc.base.clock import Clock
from cdc.base.parts import Part, Parts
from cdc.base.ts import Ts
from cdc.coord.contract import KeyEvent, Store, WatchCompacted
from cdc.coord.keys import Keys, last
from cdc.coord.messages import ErrorInfo, UpstreamStatus
from owner.concerned import EVERY, NOTHING, Concerned, concerned, concerns_all
from owner.logs import Logs, UpstreamLog

_AFTER_ERROR_S = 1.0
# A log without DDLs has no news that processors wait for.
_LOG_S = 1.0


class Waking:
    """Sets an event when the owner must look; ``in_use`` are the upstreams whose logs it follows.

    ``stop`` is set by whoever ends the owner, before :meth:`close`.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        logs: Logs,
        clock: Clock,
        stop: threading.Event,
        parts: Parts,
    ) -> None:
        self._store = store
        self._keys = keys
        self._logs = logs
        self._clock = clock
        self._stop = stop
        self._event = threading.Event()
        # Set while there is news that somebody waits for.
        self._urgent = threading.Event()
        self._guard = threading.Lock()
        self._concerned = NOTHING
        # By upstream the error that its status had last.
        self._errors: dict[str, ErrorInfo | None] = {}
        self._followers: dict[str, threading.Thread] = {}
        self.in_use: Set[str] = frozenset()
        self._watch = store.watch(keys.prefix, store.revision() + 1)
        self._captures = store.watch(keys.meta_prefix, store.revision() + 1)
        self._parts: list[Part] = [
            parts.make("owner-watch", self._follow_store, stop),
            parts.make("owner-captures", self._follow_captures, stop),
        ]

    def start(self) -> None:
        """Begin to follow; the owner looks once at first."""
        self.wake()
        for part in self._parts:
            part.start()

    def close(self, timeout_s: float) -> None:
        """End all threads."""
        self.wake()
        self._watch.close()
        self._captures.close()
        for part in self._parts:
            part.join(timeout_s)
        for follower in self._followers.values():
            follower.join(timeout_s)

    def wake(self, what: Concerned = EVERY) -> None:
        """The owner must look at these changefeeds."""
        with self._guard:
            self._concerned |= what
            if what.urgent:
                self._urgent.set()
        self._event.set()

    def wait(self, timeout_s: float) -> Concerned:
        """Wait until it must look, or the time is over; what comes from now on wakes it again."""
        self._event.wait(timeout_s)
        self._event.clear()
        with self._guard:
            found, self._concerned = self._concerned, NOTHING
            self._urgent.clear()
        return found

    def rest(self, timeout_s: float) -> None:
        """Leave the processor to others, until somebody waits for the owner."""
        self._urgent.wait(timeout_s)

    def follow_logs(self, upstreams: Set[str]) -> None:
        """Follow the logs of these upstreams, and no others."""
        self.in_use = upstreams
        for name in upstreams:
            thread = self._followers.get(name)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(
                    target=self._follow_log, args=(name,), name=f"owner-log-{name}", daemon=True
                )
                self._followers[name] = thread
                thread.start()

    def _follow_store(self) -> bool:
        try:
            events = self._watch.next()
        except WatchCompacted:
            self._watch = self._store.watch(self._keys.prefix, self._store.revision() + 1)
            self.wake()
            return True
        news = self._news(events)
        if news != NOTHING:
            self.wake(news)
        return True

    def _news(self, events: Sequence[KeyEvent]) -> Concerned:
        """What these touch: of what a puller says only an error that comes or goes."""
        prefix = self._keys.upstream_status_prefix
        upstreams = set()
        for event in events:
            if event.key.startswith(prefix) and event.value is not None:
                error = None
                with suppress(ValidationError):
                    error = UpstreamStatus.model_validate_json(event.value).error
                name = last(event.key)
                if self._errors.get(name, error) != error or name not in self._errors:
                    upstreams.add(name)
                self._errors[name] = error
        others = (e.key for e in events if e.value is None or not e.key.startswith(prefix))
        return concerned(self._keys, others) | Concerned(upstreams=frozenset(upstreams))

    def _follow_captures(self) -> bool:
        try:
            if concerns_all(self._keys, (event.key for event in self._captures.next())):
                self.wake()
        except WatchCompacted:
            start = self._store.revision() + 1
            self._captures = self._store.watch(self._keys.meta_prefix, start)
            self.wake()
        return True

    def _follow_log(self, name: str) -> None:
        seen: Ts = 0
        told: Ts = 0
        told_s = -_LOG_S
        log: UpstreamLog | None = None
        while not self._stop.is_set() and name in self.in_use:
            try:
                log = log or self._logs(name)
                resolved = log.wait(seen, _LOG_S)
                news = log.has_ddl(seen, resolved)
            except Exception:
                # The tick meets the same error and deals with it.
                log = None
                self._stop.wait(_AFTER_ERROR_S)
                self.wake()
                continue
            seen, now_s = resolved, self._clock.monotonic()
            if news:
                self.wake(Concerned(upstreams=frozenset({name})))
            elif seen != told and now_s - told_s >= _LOG_S:
                self.wake(Concerned(moved=frozenset({name})))
            else:
                continue
            told, told_s = seen, now_s
