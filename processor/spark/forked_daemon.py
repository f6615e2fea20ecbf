"""Spark's Python daemon as a fork of the capture, which has loaded what it needs.

Spark starts its daemon (:mod:`processor.spark.daemon`) as a program of its own, which loads numba,
pyspark and the codecs again: one and a half seconds of processor time at each start of a capture.
So before it has threads the capture forks a process that loads what is left to load while the JVM
starts. The program that Spark starts then hands over to it what it was given: its arguments, its
environment, and standard input and output, by which Spark and the daemon find each other. It only
waits for the daemon's end. Where nobody listens the program loads by itself: on the hosts of a
cluster, and with a JVM that was started again.

What is forked ends with its capture, whose death it sees as the end of a pipe, until it is Spark's.
Where the capture has workers of its own (:mod:`processor.resident`), they are forked from the same.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from processor import process_names
from processor.resident import spawner

VARIABLE = "TIDEGATE_FORKED_DAEMON"
"""Where the fork listens, for the program that Spark starts."""

_STANDARD = (0, 1, 2)
_LENGTH = struct.Struct("!I")
_TAKEN = b"1"
_MAX_FD = 1 << 20


def address(scratch: Path) -> Path:
    """The socket of a capture's fork, beside Spark's scratch folder."""
    return scratch.absolute().with_name(f"{scratch.name}-daemon")


def fork(path: Path, requests: socket.socket | None = None) -> int:
    """Fork what listens at ``path`` for the program that Spark starts; its process id.

    It also serves ``requests`` for resident workers, if those are given, from the moment that it
    begins to load: then that is what stays, and the daemon is a fork of it. Only while this process
    has no other threads. Raises OSError.
    """
    # The other end is nobody's to close: its end is that of this process.
    ends, _ = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _be_forked(path, ends, requests)
    os.close(ends)
    # Its end is nobody's news, but somebody has to take it.
    threading.Thread(target=os.waitpid, args=(pid, 0), name="forked-daemon", daemon=True).start()
    return pid


def hand_over(path: Path) -> int | None:
    """Have what listens at ``path`` be the daemon in place of this process, until that ends.

    The exit code, or None if nobody takes it.
    """
    with socket.socket(socket.AF_UNIX) as server:
        try:
            with _reached(path) as short:
                server.connect(str(short))
            given = {"argv": sys.argv, "cwd": os.getcwd(), "environment": dict(os.environ)}
            text = json.dumps(given).encode()
            socket.send_fds(server, [_LENGTH.pack(len(text))], _STANDARD)
            server.sendall(text)
            if server.recv(1) != _TAKEN:
                return None
        except OSError:
            return None
        # From here on Spark may talk to the daemon; nobody else can be it.
        with suppress(OSError):
            code = server.recv(1)
            return code[0] if code else 1
        return 1


def _be_forked(path: Path, ends: int, requests: socket.socket | None) -> None:
    """Load, and become Spark's daemon; ends the process: what its parent was about is not its."""
    code = 1
    try:
        # The lock of the data directory, and what others wait for the end of, are the capture's.
        _close_all_but(ends, *([] if requests is None else [requests.fileno()]))
        connection = _awaited(path, ends, requests)
        if connection is not None:
            code = _serve(connection)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _close_all_but(*kept: int) -> None:
    before = len(_STANDARD) - 1
    for fd in (*sorted(kept), _MAX_FD):
        os.closerange(before + 1, fd)
        before = fd


def _awaited(path: Path, ends: int, requests: socket.socket | None) -> socket.socket | None:
    """Load, and wait for whoever hands over; None if the capture ends before.

    With ``requests`` it returns in a fork alone: this process serves them, and ends with them.
    """
    from processor.spark import daemon

    # Ctrl-C is for the capture, and what it has blocked to handle it later is not for us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        with _reached(path) as short:
            listener.bind(str(short))
        bound = path.stat().st_ino
        listener.listen()
        if requests is None:
            daemon.load()
        else:
            serving = spawner.Serving(requests)
            daemon.load(partial(serving.serve_waiting, (listener.fileno(), ends)))
            if os.fork():
                listener.close()
                os.close(ends)
                serving.serve()
                os._exit(0)
            serving.end()
        process_names.take(process_names.DAEMON)
        waiting = select.poll()
        waiting.register(ends)
        waiting.register(listener, select.POLLIN)
        ended = any(fd == ends for fd, _ in waiting.poll())
        # Nobody else is to come, and a copy of the data directory is one of files. After the end of
        # the capture another one may listen there.
        with suppress(FileNotFoundError):
            if path.stat().st_ino == bound:
                path.unlink()
        if ended:
            return None
        connection, _ = listener.accept()
    os.close(ends)
    return connection


def _serve(connection: socket.socket) -> int:
    """Go on as the program at the other end of a connection; the exit code."""
    from processor.spark import daemon

    length, fds, _, _ = socket.recv_fds(connection, _LENGTH.size, len(_STANDARD))
    with connection.makefile("rb") as stream:
        given = json.loads(stream.read(*_LENGTH.unpack(length)))
    for number, fd in zip(_STANDARD, fds, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    # What was open when the capture was started may be no files at all.
    sys.stdin, sys.stdout = (os.fdopen(n, mode, closefd=False) for n, mode in ((0, "r"), (1, "w")))
    sys.argv = given["argv"]
    os.environ.clear()
    os.environ.update(given["environment"])
    os.chdir(given["cwd"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [one for one in paths if one and one not in sys.path]
    connection.sendall(_TAKEN)
    # Its end is that of the daemon, whatever workers of it are left.
    os.register_at_fork(after_in_child=connection.close)
    code = 1
    try:
        daemon.serve()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    with suppress(OSError):
        connection.sendall(bytes([code]))
    return code


@contextmanager
def _reached(path: Path) -> Iterator[Path]:
    """A path of a socket that is short enough for one, however long its folder's is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{folder}", path.name)
    finally:
        os.close(folder)
