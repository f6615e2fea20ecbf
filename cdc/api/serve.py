"""The API's HTTP server, in a thread of the capture."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Collection

import uvicorn

from cdc.api import client_names
from cdc.api.app import make
from cdc.api.guard import Guard, host_of
from cdc.server.capture import Capture


class ApiServer:
    """Serves a capture's API on a bound socket until stopped; by HTTPS with a TLS context.

    ``names``: of clients with a certificate only those with one of these; all if there are none.
    """

    def __init__(
        self,
        capture: Capture,
        sock: socket.socket,
        guard: Guard,
        tls: ssl.SSLContext | None,
        names: Collection[str] = (),
    ) -> None:
        config = uvicorn.Config(
            make(capture, guard, capture.peers),
            http=client_names.only(names) if names else "auto",
            ssl_context_factory=(lambda *_: tls) if tls else None,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            # Clients reuse an idle connection; a shorter time cuts requests that come just then.
            timeout_keep_alive=75,
        )
        self._server = uvicorn.Server(config)
        self._sock = sock
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the requests under way, then end."""
        self._server.should_exit = True
        self._thread.join(5.0)
        self._sock.close()

    def _run(self) -> None:
        # Off the main thread uvicorn leaves the process's signals alone.
        self._server.run(sockets=[self._sock])


def serve(
    capture: Capture, sock: socket.socket, token: str, tls: ssl.SSLContext | None
) -> ApiServer:
    """Begin to answer whoever has ``token``, by the hosts that the capture's settings name."""
    settings = capture.settings
    hosts = (settings.host, host_of(settings.advertise_addr), *settings.security.allowed_hosts)
    api = ApiServer(capture, sock, Guard.of(token, hosts), tls, settings.security.cert_allowed_cn)
    api.start()
    return api
