"""The process that resident workers are forked from, and the capture's end of it.

It has loaded what workers need and has no threads, so a worker is there in some milliseconds. It
ends with its capture, which it sees as the end of the connection, and so do the workers.
"""

from __future__ import annotations

import os
import signal
import socket

from processor import process_names

_WORKER = b"w"


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


def serve(requests: socket.socket) -> None:
    """Fork a worker for each request, until their end; only in a process without threads."""
    from processor.resident import worker

    process_names.take(process_names.SPAWNER)
    # Nobody asks how a worker has ended: the capture sees that its connection has.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, fds, _, _ = socket.recv_fds(requests, len(_WORKER), 1)
        if not asked:
            return
        with socket.socket(fileno=fds[0]) as connection:
            if os.fork() == 0:
                requests.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                worker.serve(connection)
