"""The process that resident workers are forked from, and the capture's end of it.

It has loaded what workers need and has no threads, so a worker is there in some milliseconds; one
that is asked for while it still loads kernels is forked at once, and loads those that it needs. It
ends with its capture, which it sees as the end of the connection, and so do the workers.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
from collections.abc import Collection

from processor import process_names

_WORKER = b"w"
_REST_S = 3.0


class Spawner:
    """The capture's end; ``requests`` is one of a pair of sockets, :func:`serve` has the other."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests

    def spawn(self) -> socket.socket:
        """The connection of a new worker. Raises OSError if there is none to fork it."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._requests, [_WORKER], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        return ours


class Serving:
    """The forking end of ``requests``; only in a process without threads."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        process_names.take(process_names.SPAWNER)
        # Nobody asks how a worker has ended: the capture sees that its connection has.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def serve_waiting(self, not_theirs: Collection[int]) -> None:
        """Fork a worker for each request that is there by now, without these file descriptors.

        Behind one it rests, as long as others come: rows wait for what workers load by themselves.
        """
        rest_s = 0.0
        while select.select([self._requests], [], [], rest_s)[0] and self._serve_next(not_theirs):
            rest_s = _REST_S

    def serve(self) -> None:
        """Fork a worker for each request, until their end."""
        while self._serve_next():
            pass

    def end(self) -> None:
        """Leave the requests to the process that this one was forked from."""
        self._requests.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _serve_next(self, not_theirs: Collection[int] = ()) -> bool:
        """Wait for a request and fork its worker; False at their end."""
        from processor.resident import worker

        asked, fds, _, _ = socket.recv_fds(self._requests, len(_WORKER), 1)
        if not asked:
            return False
        with socket.socket(fileno=fds[0]) as connection:
            if os.fork() == 0:
                self.end()
                for fd in not_theirs:
                    os.close(fd)
                # Whoever loads has no garbage looked for, as has a worker what it was forked with.
                gc.freeze()
                gc.enable()
                worker.serve(connection)
        return True
