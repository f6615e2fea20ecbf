"""The endpoint of a capture's logs: whether it is needed, and where it listens."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import ssl
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from cdc.base.parts import Parts
from cdc.coord.opening import EMBEDDED
from cdc.server.listener import bind

if TYPE_CHECKING:
    from cdc.changelog.remote.endpoint import LogEndpoint
    from cdc.server.settings import ServerSettings

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\s*", re.DOTALL)


class LogServing(StrEnum):
    """For whom logs are served."""

    # Workers of other hosts: of a Spark cluster, and of other captures.
    AUTO = "auto"
    # Workers of a cluster see the data directory under the same path.
    NEVER = "never"


class LogServerSettings(BaseModel):
    """Where Spark's workers read logs that do not see the data directory.

    ``addr`` "" is the API's host and a free port; ``advertise_addr`` the same as workers see it, ""
    for the host of the server's own. ``cache_bytes`` bounds what an executor keeps on its host.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    serve: LogServing = LogServing.AUTO
    addr: str = Field(default="", pattern=r"^(\S+:\d{1,5})?$")
    advertise_addr: str = Field(default="", pattern=r"^(\S+:\d{1,5})?$")
    cache_bytes: int = Field(default=2 << 30, ge=64 << 20)


def open_endpoint(settings: ServerSettings, logs: Path, parts: Parts) -> LogEndpoint | None:
    """The endpoint, listening; None where all workers see the files, which is a capture alone.

    Raises AddressUnusable, AddressNotPrivate, or ServerConfigInvalid where no worker could know
    the address.
    """
    chosen = settings.log_server
    alone = settings.processor.local and settings.store == EMBEDDED
    if alone or chosen.serve is LogServing.NEVER:
        return None
    from cdc.changelog.remote.endpoint import LogEndpoint
    from processor.slot import GivenSlots

    host, _, port = (chosen.addr or f"{settings.host}:0").rpartition(":")
    host = host.strip("[]")
    seen, _, seen_port = chosen.advertise_addr.rpartition(":")
    seen = (seen or settings.advertise_addr.rpartition(":")[0] or host).strip("[]")
    if _is_wildcard(seen):
        if settings.processor.local:
            # Our own workers need none, and no other capture could reach us either.
            return None
        from cdc.server.settings import ServerConfigInvalid

        raise ServerConfigInvalid(
            f"log-server: workers cannot be told to connect to {seen}",
            object="log-server.advertise-addr",
            hint="give --advertise-addr, or log-server.advertise-addr: an address of this host",
        )
    tls = settings.security.tls(clients=False)
    listener = bind(host, int(port), plain=tls is None)
    shown = None
    if tls is not None and settings.security.cert_path is not None:
        shown = (tls, certificate_digest(settings.security.cert_path))
    return LogEndpoint(
        logs,
        listener,
        seen,
        int(seen_port or 0) or int(listener.getsockname()[1]),
        GivenSlots(),
        parts,
        shown,
        cache_bytes=chosen.cache_bytes,
    )


def certificate_digest(path: Path) -> str:
    """SHA-256 (hex) of the first certificate of a PEM file, which is the one that is shown."""
    first = _CERTIFICATE.search(path.read_text("ascii"))
    assert first is not None
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first[0])).hexdigest()


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
