"""Calls of etcd with a deadline, over several members, logged in."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from etcd3 import etcdrpc

from cdc.coord.contract import StoreFailed
from cdc.coord.etcd.address import EtcdAddress
from cdc.coord.etcd.errors import LoginExpired, StoreRefused, details, meaning

TIMEOUT_S = 10.0
"""How long a call is tried at all members together."""

# What this process forks runs another program at once (Spark's JVM). For each gRPC would bring its
# threads to rest, those that keep the session alive among them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# A member that is cut off from the others holds a call until it gives up.
_ATTEMPT_S = 3.0
_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.02, 0.5
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A connection that nobody answers on is seen; etcd closes those that ask more often than 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # What a ping waits for its answer, in fact: a minute if nothing is said.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    # The service config of a DNS name could change what a call does.
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_http_proxy", 0),
)
# A member without a leader ends the call instead of waiting, and a watch instead of going silent.
_LEADER = ("hasleader", "true")

Call = Callable[[Any, float, Any], Any]
"""``call(channel, timeout_s, metadata)``."""


class EtcdConnection:
    """One channel to each member; calls go to one of them until it fails."""

    def __init__(self, address: EtcdAddress, timeout_s: float = TIMEOUT_S) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._channels = [_channel(address, member) for member in address.members]
        self._at = 0
        self._token: str | None = None
        # By stream the member that it is at.
        self._streams: dict[Any, int] = {}

    @property
    def shown(self) -> str:
        """The members, for people."""
        return "etcd " + ",".join(self.address.members)

    def close(self) -> None:
        """End all connections, and calls under way."""
        for channel in self._channels:
            channel.close()

    def call(
        self,
        send: Call,
        *,
        before_retry: Callable[[], None] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """What ``send`` returns; tried again at other members until time is up.

        ``before_retry`` is called when an attempt has failed of which it is not known whether it
        has had its effect. Raises StoreFailed, and what ``errors.meaning`` says.
        """
        whole_s = self.timeout_s if timeout_s is None else min(timeout_s, self.timeout_s)
        deadline = time.monotonic() + whole_s
        pause_s, why = _PAUSE_FIRST_S, "it does not answer"
        while (left := deadline - time.monotonic()) > 0:
            at, channel = self._current()
            attempt_s = min(left, _ATTEMPT_S)
            try:
                return send(channel, attempt_s, self._metadata(channel, attempt_s))
            except ValueError:
                raise StoreFailed("its connections are closed", object=self.shown) from None
            except grpc.RpcError as e:
                meant = meaning(e)
                why = details(e) or why
            if isinstance(meant, LoginExpired):
                # It was refused before anything else was looked at.
                self.logged_out()
            elif meant is not None:
                raise meant
            else:
                if before_retry is not None:
                    before_retry()
                self.leave(at)
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        raise StoreFailed(
            f"no member has answered within {whole_s:g} s: {why}",
            object=self.shown,
            hint="it is tried again; look at etcd's members and their network",
        )

    def stream(self, send: Callable[[Any, Any], Any]) -> tuple[int, Any]:
        """A stream at the present member, and which that is: ``leave`` it when it fails.

        It is cancelled when calls leave that member: of one that hangs a stream hears nothing, and
        no error either, for as long as its connection is taken to be there.
        """
        at, channel = self._current()
        stream = send(channel, self._metadata(channel, _ATTEMPT_S))
        with self._lock:
            self._streams[stream] = at
            left = at != self._at
        if left:
            stream.cancel()
        return at, stream

    def ended(self, stream: Any) -> None:
        """A stream is followed no more."""
        with self._lock:
            self._streams.pop(stream, None)

    def leave(self, member: int) -> None:
        """The next calls go to another member than this one, and so do streams."""
        with self._lock:
            if member == self._at:
                self._at = (member + 1) % len(self._channels)
            others = [s for s, at in self._streams.items() if at == member != self._at]
        for stream in others:
            stream.cancel()

    def _current(self) -> tuple[int, Any]:
        with self._lock:
            return self._at, self._channels[self._at]

    def logged_out(self) -> None:
        """Log in again before the next call. Raises StoreRefused if there is no user."""
        if not self.address.user:
            raise StoreRefused(
                "it asks for a user",
                object=self.shown,
                hint="write user and password into the store's address",
            )
        with self._lock:
            self._token = None

    def _metadata(self, channel: Any, timeout_s: float) -> list[tuple[str, str]]:
        if not self.address.user:
            return [_LEADER]
        with self._lock:
            token = self._token
        if token is None:
            request = etcdrpc.AuthenticateRequest(
                name=self.address.user, password=self.address.password
            )
            answer = etcdrpc.AuthStub(channel).Authenticate(request, timeout=timeout_s)
            token = str(answer.token)
            with self._lock:
                self._token = token
        return [_LEADER, ("token", token)]


def _channel(address: EtcdAddress, member: str) -> Any:
    if not address.tls:
        return grpc.insecure_channel(member, options=_OPTIONS)
    files = (address.ca, address.key, address.cert)
    read = (None if f is None else f.read_bytes() for f in files)
    return grpc.secure_channel(member, grpc.ssl_channel_credentials(*read), options=_OPTIONS)
