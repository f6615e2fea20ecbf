"""A TCP proxy that can stop in the middle of what a server sends."""

from __future__ import annotations

import contextlib
import socket
import threading
import time


class SlowProxy:
    """Forwards to a local port; ``stop_after`` lets so many more bytes of the server pass."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._left: int | None = None
        self._open = True
        self.stalled = False

    def __enter__(self) -> SlowProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._left = None
        self._listener.close()

    def stop_after(self, count: int) -> None:
        self.stalled, self._left = False, count

    def go_on(self) -> None:
        self._left = None

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while self._open:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for one, other, slow in ((client, server, False), (server, client, True)):
                    threading.Thread(
                        target=self._forward, args=(one, other, slow), daemon=True
                    ).start()

    def _forward(self, one: socket.socket, other: socket.socket, slow: bool) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                while slow and self._left is not None and self._left <= 0:
                    self.stalled = True
                    time.sleep(0.01)
                if slow and self._left is not None:
                    self._left -= len(data)
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
