"""Which of the clients that have a certificate may connect, by its common name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_log = logging.getLogger("server")


def only(names: Collection[str]) -> type[H11Protocol]:
    """A protocol for connections of clients with these names; others are cut, and logged."""

    class OfNames(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            found = common_names(transport.get_extra_info("peercert") or {})
            if not found & set(names):
                whose = ", ".join(sorted(found)) or "without a name"
                _log.warning("refused %s: its certificate is %r", self.client, whose)
                transport.abort()

    return OfNames


def common_names(certificate: Mapping[str, Any]) -> set[str]:
    """The names of its subject, of a certificate as Python's ``ssl`` gives it."""
    parts = (pair for part in certificate.get("subject", ()) for pair in part)
    return {value for key, value in parts if key == "commonName"}
