"""An endpoint over a folder of logs, and readers that have nothing but it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cdc.base.parts import Parts
from cdc.changelog.reader import ChangeLog
from cdc.changelog.remote.access import LogAccess
from cdc.changelog.remote.endpoint import LogEndpoint
from cdc.changelog.remote.mirror import LogMirror
from cdc.server.log_server import certificate_digest
from processor.slot import GivenSlots
from tests.servers.tls import Tls


@contextmanager
def serving(root: Path, tls: Tls | None = None) -> Iterator[LogEndpoint]:
    """Serve what lies below ``root`` on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    shown = None
    if tls is not None:
        from cdc.server.settings import SecuritySettings

        security = SecuritySettings(cert_path=tls.server_cert, key_path=tls.server_key)
        context = security.tls(clients=False)
        assert context is not None
        shown = (context, certificate_digest(tls.server_cert))
    endpoint = LogEndpoint(root, listener, "127.0.0.1", port, GivenSlots(), Parts(), shown)
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.stop()


def mirrored(access: LogAccess, folder: Path, cache: Path, *, port: int = 0) -> ChangeLog:
    """A reader that has a copy below ``cache``; by another ``port`` if one is given."""
    access = replace(access, port=port or access.port)
    return ChangeLog.over(LogMirror.open(access, str(folder), cache))
