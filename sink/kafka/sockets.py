"""Connections of kafka-python that go only where the egress policy lets us.

A broker says where the others are, so what it says is looked at as a user's own words are. Its
clients take another kind of socket by the scheme of a proxy's URL, which is the place for it.
"""

from __future__ import annotations

import socket
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.inet import KafkaNetSocket

from cdc.base import egress
from cdc.base.egress import HostNotAllowed

PROXY_URL = "tidegate-egress://"


class CheckedSocket(KafkaNetSocket):  # type: ignore[misc]
    """Looks up names, and leaves out addresses that may not be reached."""

    SCHEMES = ("tidegate-egress",)

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> list[Any]:
        """As ``getaddrinfo``; raises KafkaConnectionError where nothing is left."""
        try:
            return egress.installed().places(host, port)
        except HostNotAllowed as refused:
            raise KafkaConnectionError(str(refused)) from None
        except socket.gaierror:
            return []


def check(servers: tuple[str, ...]) -> None:
    """Raise HostNotAllowed for a broker that may not be reached by any of its addresses."""
    policy = egress.installed()
    if policy.hosts is None:
        return
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            policy.places(host, int(port))
        except OSError:
            # Who does not know the name today may know it tomorrow; it is looked at then.
            continue
