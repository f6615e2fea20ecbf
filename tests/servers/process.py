"""Child processes that never outlive this one, and ports for them."""

from __future__ import annotations

import atexit
import ctypes
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.servers.errors import StartFailed
from tests.waiting import PATIENCE, until

_PR_SET_PDEATHSIG = 1
_requests: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]]] = queue.SimpleQueue()
_spawner: tuple[int, threading.Thread] | None = None
_spawner_lock = threading.Lock()


def _serve() -> None:
    while True:
        action, answer = _requests.get()
        try:
            answer.put((True, action()))
        except BaseException as error:
            answer.put((False, error))


def _in_spawner(action: Callable[[], Any]) -> Any:
    """Run ``action`` in a thread that lives as long as this process.

    The kernel sends the parent-death signal when the *thread* that forked ends, so a server
    started from a short-lived thread would die with that.
    """
    global _spawner, _requests
    with _spawner_lock:
        if _spawner is None or _spawner[0] != os.getpid():
            _requests = queue.SimpleQueue()
            thread = threading.Thread(target=_serve, name="server-spawner", daemon=True)
            thread.start()
            _spawner = (os.getpid(), thread)
    answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
    _requests.put((action, answer))
    done, value = answer.get()
    if not done:
        raise value
    return value


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(
    command: Sequence[str],
    *,
    cwd: Path,
    log: Path,
    env: dict[str, str] | None = None,
    signals: bool = True,
) -> subprocess.Popen[bytes]:
    """Start ``command`` with its output appended to ``log``; it is killed when we end.

    Without ``signals`` a write beyond RLIMIT_FSIZE is an error, as on a full disk, and no SIGXFSZ.
    """
    setpriv = shutil.which("setpriv")
    before = [setpriv, "--pdeathsig", "KILL"] if setpriv else []

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                [*before, *command],
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Python itself ignores SIGXFSZ and SIGPIPE, which a child inherits.
                restore_signals=signals,
                preexec_fn=None if before else _die_with_parent,
            )

    process: subprocess.Popen[bytes] = _in_spawner(start)
    return process


_given: set[int] = set()


def free_port() -> int:
    """Return a port that nobody listens on, below those that the kernel gives to clients.

    Nor has it been returned before: whoever has it may not listen yet.
    """
    for _ in range(200):
        port = random.SystemRandom().randrange(15000, 32000)
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise StartFailed("no free port between 15000 and 32000")


def tail(path: Path, lines: int = 25) -> str:
    """Return the last lines of a log, or nothing if there is none."""
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def data_folder(given: Path | str | None, prefix: str) -> tuple[Path, bool]:
    """Return a data folder and whether it is ours to remove.

    ``given`` is used and kept; else one is made below ``$TIDEGATE_TMP`` or the system's
    temporary folder.
    """
    if given is not None:
        folder = Path(given).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return folder, False
    parent = os.environ.get("TIDEGATE_TMP")
    if parent:
        Path(parent).mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"tidegate-{prefix}-", dir=parent)), True


def send(pid: int, number: int) -> None:
    """Send a signal; a process that is to stop has stopped when this returns.

    The kernel tells one thread, which stops the others when it comes to run: on a busy machine
    they go on answering for a while.
    """
    os.kill(pid, number)
    if number == signal.SIGSTOP:
        until(lambda: _all_stopped(pid), f"process {pid} has stopped", 10)


def _all_stopped(pid: int) -> bool:
    try:
        shown = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return not Path(f"/proc/{pid}").exists()
    # Behind the name, in which anything may stand: T is stopped, Z and X have ended.
    return all(stat.rpartition(")")[2].split()[0] in "TZX" for stat in shown)


def wait_gone(process: subprocess.Popen[bytes], seconds: float, name: str) -> None:
    """Wait for a process that was told to end, and kill it if it does not."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"{name} did not stop within {seconds:.0f} s and is killed", flush=True)
        process.kill()
        process.wait()


def wait_until(
    ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    seconds: float,
    log: Path,
    name: str,
) -> None:
    """Return when ``ready()`` holds; raise `StartFailed` if the process ends or time is up."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise StartFailed(f"{name} ended with {process.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise StartFailed(f"{name} was not ready after {seconds:.0f} s:\n{tail(log)}")
        time.sleep(0.03)


_running: weakref.WeakSet[Any] = weakref.WeakSet()


def register(server: Any) -> None:
    """Have ``server.close()`` called at exit, in the process that registered it only."""
    server._owner_pid = os.getpid()
    _running.add(server)


@atexit.register
def _close_all() -> None:
    for server in list(_running):
        if server._owner_pid == os.getpid():
            server.close()
