"""The upstreams of a capture: registered, listed, removed; one puller thread for each."""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import (
    ErrorKind,
    InvalidError,
    TidegateError,
    TransientError,
)
from cdc.base.ts import MAX_TS, Ts
from cdc.coord.contract import Delete, LeaseExpired, Put, Store, Unchanged, WatchCompacted
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    UpstreamInfo,
    UpstreamStatus,
)
from cdc.schema.snapshot import Schema

_log = logging.getLogger("upstream")
_NAME = re.compile(r"[a-zA-Z0-9]+([-_][a-zA-Z0-9]+)*\Z")

_NEEDS_NOTHING = frozenset({FeedState.FINISHED, FeedState.REMOVED})


@dataclass(frozen=True, slots=True)
class Needed:
    """What changefeeds need of a log: rows above ``checkpoint_ts``, the schema at each start."""

    checkpoint_ts: Ts
    starts: tuple[Ts, ...]


OnStatus = Callable[[UpstreamStatus], None]


class UpstreamNotFound(InvalidError):
    """There is no upstream of this name."""

    code = "TG:ErrUpstreamNotFound"


class UpstreamExists(InvalidError):
    """An upstream of this name is registered."""

    code = "TG:ErrUpstreamExists"


class UpstreamInUse(InvalidError):
    """Changefeeds read this upstream."""

    code = "TG:ErrUpstreamInUse"


class UpstreamNameInvalid(InvalidError):
    """The name of an upstream breaks the rules."""

    code = "TG:ErrUpstreamNameInvalid"


class PullerFailed(TransientError):
    """A puller ended in a way that it did not name."""

    code = "TG:ErrPullerFailed"


class Source(Protocol):
    """What reads real servers and writes change logs."""

    def register(self, asked: UpstreamInfo, start: str | None, folder: Path) -> UpstreamInfo:
        """Check the server, take the snapshot, make the log; the info completed."""

    def pull(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
    ) -> None:
        """Pull into the log until stopped; raises what ends it.

        ``needed``: what changefeeds need of the log; the rest may go.
        """

    def schema_now(self, info: UpstreamInfo, folder: Path) -> Ts:
        """Take a schema snapshot of this moment; the ts at which it holds."""

    def schema_at(self, folder: Path, ts: Ts) -> Schema:
        """The schema for rows at ``ts``; raises if the log begins later."""


class Upstreams:
    """Operations on upstreams, and the supervision of their pullers.

    ``folder`` names the folder of an upstream's change log. Each puller holds a key under the
    capture's lease, so that exactly one capture pulls a node.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        capture_id: str,
        lease: int,
        source: Source,
        folder: Callable[[str], Path],
        clock: Clock,
        observe: Callable[[str, UpstreamStatus], None],
    ) -> None:
        self._store = store
        self._keys = keys
        self._capture = capture_id
        self._lease = lease
        self._source = source
        self._folder = folder
        self._clock = clock
        self._observe = observe
        self._guard = threading.Lock()
        self._pullers: dict[str, _Puller] = {}
        self._stop = threading.Event()
        self._watch = store.watch(keys.upstream_info_prefix, store.revision() + 1)
        self._thread = threading.Thread(target=self._run, name="upstreams", daemon=True)

    def start(self) -> None:
        """Begin to pull what is registered."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop all pullers."""
        self._stop.set()
        self._watch.close()
        self._thread.join(timeout_s)
        for puller in self._pullers.values():
            puller.stop.set()
        for puller in self._pullers.values():
            puller.thread.join(timeout_s)

    def all(self) -> list[UpstreamInfo]:
        """All registered upstreams, by name."""
        _, entries = self._store.range(self._keys.upstream_info_prefix)
        return [UpstreamInfo.model_validate_json(e.value) for e in entries]

    def info(self, name: str) -> UpstreamInfo:
        """One upstream; raises :class:`UpstreamNotFound`."""
        entry = self._store.get(self._keys.upstream_info(name))
        if entry is None:
            raise UpstreamNotFound(
                "there is no such upstream",
                object=f"upstream {name}",
                hint="cdc cli upstream create registers one",
            )
        return UpstreamInfo.model_validate_json(entry.value)

    def status(self, name: str) -> UpstreamStatus:
        """What its puller said last."""
        entry = self._store.get(self._keys.upstream_status(name))
        if entry is None:
            return UpstreamStatus()
        return UpstreamStatus.model_validate_json(entry.value)

    def register(
        self,
        name: str,
        uri: str,
        *,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        start: str | None = None,
    ) -> UpstreamInfo:
        """Check a server and begin to pull it."""
        if not _NAME.match(name) or len(name) > 128:
            raise UpstreamNameInvalid(
                f"{name[:130]!r} is not a name of an upstream",
                hint="letters, digits, single hyphens and underscores, at most 128 characters",
            )
        entry_key = self._keys.upstream_info(name)
        exists = UpstreamExists(
            "an upstream of this name is registered",
            object=f"upstream {name}",
            hint="choose another name, or remove the old one first",
        )
        with self._guard:
            if self._store.get(entry_key) is not None:
                raise exists
            folder = self._folder(name)
            # Whatever lies there belongs to a registration that did not come to its end.
            shutil.rmtree(folder.parent, ignore_errors=True)
            asked = UpstreamInfo(
                name=name,
                uri=uri,
                ca=ca,
                cert=cert,
                key=key,
                create_time_ms=self._clock.now_ms(),
            )
            try:
                info = self._source.register(asked, start, folder)
                value = info.model_dump_json().encode()
                if not self._store.txn([Unchanged(entry_key, 0)], [Put(entry_key, value)]):
                    raise exists
            except BaseException:
                shutil.rmtree(folder.parent, ignore_errors=True)
                raise
        _log.info("upstream %s: registered, %s %s", name, info.server_kind, info.server_version)
        return info

    def remove(self, name: str) -> None:
        """Forget an upstream and delete its log; refused while changefeeds read it."""
        with self._guard:
            entry = self._store.get(self._keys.upstream_info(name))
            self.info(name)
            assert entry is not None
            users = [
                f.id
                for f in map(
                    FeedInfo.model_validate_json,
                    (e.value for e in self._store.range(self._keys.feed_info_prefix)[1]),
                )
                if f.upstream == name
            ]
            ops = [Delete(entry.key), Delete(self._keys.upstream_status(name))]
            compare = Unchanged(entry.key, entry.mod_revision)
            if users or not self._store.txn([compare], ops):
                raise UpstreamInUse(
                    f"read by {', '.join(users) or 'a changefeed'}",
                    object=f"upstream {name}",
                    hint="remove these changefeeds first",
                )
            self._end(name)
            shutil.rmtree(self._folder(name).parent, ignore_errors=True)
        _log.info("upstream %s: removed", name)

    def schema_at(self, name: str, ts: Ts) -> tuple[Ts, Schema]:
        """(ts, schema) to start a changefeed at; 0 takes a new snapshot of this moment."""
        info, folder = self.info(name), self._folder(name)
        if ts == 0:
            ts = self._source.schema_now(info, folder)
        return ts, self._source.schema_at(folder, ts)

    def log_folder(self, name: str) -> Path:
        """Where the change log of an upstream lies."""
        return self._folder(name)

    def revive(self, name: str) -> None:
        """Start a puller anew that an error has ended; nothing happens if it runs."""
        with self._guard:
            puller = self._pullers.get(name)
            if puller is None or puller.thread.is_alive() or self._stop.is_set():
                return
            fresh = _Puller(self, self.info(name))
            # Before it runs, so that nobody takes the old error for a new one.
            fresh.say(self.status(name).model_copy(update={"state": "starting", "error": None}))
            self._pullers[name] = fresh
            fresh.thread.start()

    def needed(self, name: str) -> Needed:
        """What the changefeeds that read an upstream need of its log.

        The greatest ts if there are none. Finished changefeeds need nothing, as TiCDC has it.
        """
        lowest, starts = MAX_TS, []
        for entry in self._store.range(self._keys.feed_info_prefix)[1]:
            feed = FeedInfo.model_validate_json(entry.value)
            if feed.upstream == name and feed.state not in _NEEDS_NOTHING:
                status = self._store.get(self._keys.feed_status(feed.id))
                checkpoint = feed.start_ts
                if status is not None:
                    checkpoint = FeedStatus.model_validate_json(status.value).checkpoint_ts
                lowest = min(lowest, checkpoint)
                starts.append(feed.start_ts)
        return Needed(lowest, tuple(starts))

    def _run(self) -> None:
        while not self._stop.is_set():
            wanted = {i.name: i for i in self.all()}
            for name, info in wanted.items():
                if name not in self._pullers and not self._stop.is_set():
                    self._begin(info)
            for name in [n for n in self._pullers if n not in wanted]:
                self._end(name)
            try:
                self._watch.next()
            except WatchCompacted:
                start = self._store.revision() + 1
                self._watch = self._store.watch(self._keys.upstream_info_prefix, start)

    def _begin(self, info: UpstreamInfo) -> None:
        key = self._keys.puller(info.name)
        put = Put(key, self._capture.encode(), self._lease)
        try:
            if not self._store.txn([Unchanged(key, 0)], [put]):
                return
        except LeaseExpired:
            return
        puller = _Puller(self, info)
        self._pullers[info.name] = puller
        puller.thread.start()

    def _end(self, name: str) -> None:
        puller = self._pullers.pop(name, None)
        if puller is not None:
            puller.stop.set()
            puller.thread.join(10.0)
            self._store.txn([], [Delete(self._keys.puller(name))])


class _Puller:
    """One puller, started again after whatever may heal."""

    def __init__(self, owner: Upstreams, info: UpstreamInfo) -> None:
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"pull-{info.name}", daemon=True)
        self._owner = owner
        self._info = info
        self._last = UpstreamStatus()

    def _run(self) -> None:
        owner, info, backoff = self._owner, self._info, Backoff(0.2)
        while not self.stop.is_set():
            began = owner._clock.monotonic()
            try:
                folder = owner._folder(info.name)
                needed = partial(owner.needed, info.name)
                owner._source.pull(info, folder, self.say, needed, self.stop)
                return
            except TidegateError as e:
                error = e
            except Exception as e:
                _log.exception("upstream %s: puller failed", info.name)
                error = PullerFailed(type(e).__name__, object=f"upstream {info.name}")
            _log.error("upstream %s: %s", info.name, error)
            final = error.kind is not ErrorKind.TRANSIENT
            said = ErrorInfo(**error.to_dict(), time_ms=owner._clock.now_ms())
            state = "failed" if final else "retrying"
            self.say(self._last.model_copy(update={"state": state, "error": said}))
            if final:
                return
            if owner._clock.monotonic() - began > 60:
                backoff = backoff.succeeded()
            backoff = backoff.failed()
            self.stop.wait(backoff.delay_s())

    def say(self, status: UpstreamStatus) -> None:
        """Write a status to the store and the metrics."""
        self._last = status
        owner, name = self._owner, self._info.name
        entry = owner._store.get(owner._keys.upstream_info(name))
        if entry is None:
            return
        put = Put(owner._keys.upstream_status(name), status.model_dump_json().encode())
        owner._store.txn([Unchanged(entry.key, entry.mod_revision)], [put], durable=False)
        owner._observe(name, status)
