"""The API's HTTP server, in a thread of the capture."""

from __future__ import annotations

import socket
import threading

import uvicorn

from cdc.api.app import make
from cdc.server.capture import Capture


class ApiServer:
    """Serves a capture's API on a bound socket until stopped."""

    def __init__(self, capture: Capture, sock: socket.socket) -> None:
        config = uvicorn.Config(
            make(capture),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
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
