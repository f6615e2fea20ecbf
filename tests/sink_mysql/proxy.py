"""A TCP proxy before a database: cuts at COMMIT, holds answers, leads to another server."""

from __future__ import annotations

import contextlib
import socket
import threading

COMMIT = b"\x07\x00\x00\x00\x03COMMIT"


class Proxy:
    """Listens on ``port``; passes everything on to ``target`` until it is told to cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = 0
        self._cut = self._forward = self._refuse = False
        self._answers = threading.Event()
        self._answers.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def cut_at_commit(self, *, forward: bool, refuse_after: bool = False) -> None:
        """Cut at the next COMMIT, which the server sees if ``forward``, but never its answer."""
        self._cut, self._forward, self._refuse = True, forward, refuse_after

    def switch(self, target: int) -> None:
        """Cut all connections; new ones lead to another server."""
        self._target = target
        opened, self._open = self._open, []
        for one in opened:
            _close(one)

    def hold_answers(self) -> None:
        """Pass no answer on until ``pass_answers``; nobody learns that a client has gone."""
        self._answers.clear()

    def pass_answers(self) -> None:
        """Pass all answers on that were held, and from now on."""
        self._answers.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refuse and self.cuts:
                    _close(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                threading.Thread(target=self._up, args=(client, server), daemon=True).start()
                threading.Thread(target=self._down, args=(client, server), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if self._cut and data == COMMIT:
                    self._cut = False
                    self.cuts += 1
                    # The client hears of it first: the answer must not slip through.
                    _close(client)
                    if self._forward:
                        server.sendall(data)
                        server.recv(1 << 16)
                    break
                server.sendall(data)
        # A client that goes while answers are held is a host that vanishes: without a word.
        self._answers.wait()
        _close(client)
        _close(server)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                self._answers.wait()
                client.sendall(data)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
