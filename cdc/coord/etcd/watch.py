"""A watch that goes on where it was, over restarts of members and lost connections."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import grpc
from etcd3 import etcdrpc

from cdc.base.errors import TidegateError
from cdc.coord.contract import KeyEvent, WatchCompacted
from cdc.coord.etcd.connection import EtcdConnection
from cdc.coord.etcd.errors import LoginExpired, meaning

_PAUSE_S = 0.2


class _Cancelled(grpc.RpcError):  # type: ignore[misc]
    """A member has ended the watch: it has no leader, or we may not look."""

    def details(self) -> str:
        return str(self.args[0])


class EtcdWatch:
    """Events of a prefix (:class:`cdc.coord.contract.Watch`).

    A thread of its own follows the stream. ``next_revision`` is the first one that was not seen,
    and a stream that ends is opened anew there: no event is missed, none comes twice.
    """

    def __init__(self, connection: EtcdConnection, cut: int, prefix: bytes, revision: int) -> None:
        self._connection = connection
        self._cut = cut
        self._prefix = prefix
        self._next_revision = revision
        self._changed = threading.Condition()
        self._events: deque[KeyEvent] = deque()
        self._failed: TidegateError | None = None
        self._closed = False
        self._stream: Any = None
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._follow, name="etcd-watch", daemon=True).start()

    def next(self, timeout_s: float | None = None) -> list[KeyEvent]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not (self._events or self._closed or self._failed):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return []
                self._changed.wait(left)
            if self._closed:
                return []
            if self._events:
                events = list(self._events)
                self._events.clear()
                return events
            assert self._failed is not None
            raise self._failed

    def close(self) -> None:
        with self._changed:
            self._closed = True
            stream = self._stream
            self._changed.notify_all()
        self._requests.put(None)
        if stream is not None:
            stream.cancel()

    def _follow(self) -> None:
        while not self._closed:
            member = -1
            try:
                member, stream = self._connection.stream(self._open)
                with self._changed:
                    self._stream = stream
                for answer in stream:
                    if not self._take(answer):
                        return
            except grpc.RpcError as e:
                if not self._goes_on(e):
                    return
            except ValueError:
                # The channel was closed: so is the store.
                self.close()
                return
            except TidegateError as e:
                self._fail(e)
                return
            finally:
                # Whoever waits for our next word to send must not wait for ever.
                self._requests.put(None)
                self._connection.ended(self._stream)
            if not self._closed:
                self._connection.leave(member)
                time.sleep(_PAUSE_S)

    def _goes_on(self, error: grpc.RpcError) -> bool:
        """Whether the stream can be opened anew; else whoever waits hears of the error."""
        meant = meaning(error)
        try:
            if isinstance(meant, LoginExpired):
                self._connection.logged_out()
            elif meant is not None:
                raise meant
        except TidegateError as e:
            self._fail(e)
            return False
        return True

    def _open(self, channel: Any, metadata: Any) -> Iterator[Any]:
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._requests = requests
        wanted = etcdrpc.WatchCreateRequest(
            key=self._prefix,
            range_end=prefix_end(self._prefix),
            start_revision=self._next_revision,
            progress_notify=True,
        )
        requests.put(etcdrpc.WatchRequest(create_request=wanted))
        stream: Iterator[Any] = etcdrpc.WatchStub(channel).Watch(
            iter(requests.get, None), metadata=metadata, wait_for_ready=False
        )
        return stream

    def _take(self, answer: Any) -> bool:
        """Take one message; False once there is nothing to follow any more."""
        if answer.canceled:
            if answer.compact_revision:
                self._fail(WatchCompacted("these events are not kept any more", object="store"))
                return False
            raise _Cancelled(answer.cancel_reason)
        if answer.created:
            return True
        events = [
            KeyEvent(
                e.kv.key[self._cut :].decode(),
                None if e.type == e.DELETE else bytes(e.kv.value),
                e.kv.mod_revision,
            )
            for e in answer.events
        ]
        with self._changed:
            # Of one revision all events come in one message, and a message about progress has none.
            self._next_revision = max(self._next_revision, answer.header.revision + 1)
            self._events.extend(events)
            self._changed.notify_all()
            return not self._closed

    def _fail(self, error: TidegateError) -> None:
        with self._changed:
            self._failed = error
            self._changed.notify_all()


def prefix_end(prefix: bytes) -> bytes:
    """The first key behind all that start with ``prefix``; a zero byte stands for all keys."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b"\0"
