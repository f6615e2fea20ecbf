"""A server of this machine under an address that is none of its loopback ones."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import psutil
import pytest


def own_address() -> str:
    """An address of this machine that is none of its loopback ones."""
    found = [
        a.address
        for addresses in psutil.net_if_addrs().values()
        for a in addresses
        if a.family == socket.AF_INET and not a.address.startswith("127.")
    ]
    if not found:
        pytest.skip("this machine has no network")
    return found[0]


class Relay:
    """Passes connections to an address of the network on to a server of this machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server((own_address(), 0))
        self.host, self.port = self._listener.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for a, b in ((client, server), (server, client)):
                    threading.Thread(target=_pump, args=(a, b), daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
