"""Spark's Python daemon as a fork of a capture: with what Spark gave it, never beyond either."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from processor import process_names
from processor.spark import forked_daemon
from tests.waiting import until

_CAPTURE = """
import fcntl, pathlib, sys
from processor.spark import forked_daemon
lock = open(sys.argv[2], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(forked_daemon.fork(pathlib.Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""
# pyspark.daemon ends so whatever it ends by.
_ENDED = 1


class Capture:
    """A process that has forked a daemon, which waits for Spark."""

    def __init__(self, folder: Path) -> None:
        # Longer than a socket's path can be.
        self.folder = folder / ("f" * 120)
        self.folder.mkdir()
        self.lock = self.folder / "lock"
        self.address = forked_daemon.address(self.folder / "spark")
        command = [sys.executable, "-c", _CAPTURE, str(self.address), str(self.lock)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout is not None
        self.fork = psutil.Process(int(self.process.stdout.readline()))
        until(self.address.exists, "it listens")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        until(lambda: not self.fork.is_running(), "the fork ends with its capture")


class Daemon:
    """What Spark's JVM does with its Python daemon."""

    def __init__(self, address: Path, sockets: Path) -> None:
        given = {
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(sockets),
            forked_daemon.VARIABLE: str(address),
        }
        command = [sys.executable, "-m", "processor.spark.daemon", "pyspark.worker"]
        self.started = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **given},
        )
        assert self.started.stdout is not None
        (size,) = struct.unpack("!i", self.started.stdout.read(4))
        self.socket = Path(self.started.stdout.read(size).decode())

    @contextmanager
    def worker(self) -> Iterator[psutil.Process]:
        """A worker of its own, until its connection is closed."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            with connection.makefile("rb") as answers:
                (pid,) = struct.unpack("!i", answers.read(4))
                yield psutil.Process(pid)

    def end(self) -> int:
        """As a JVM that ends; the exit code of what it has started."""
        self.started.communicate(timeout=60)
        return self.started.returncode


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder below which a socket can be."""
    with tempfile.TemporaryDirectory(prefix="tg") as made:
        yield Path(made)


@pytest.fixture
def capture(folder: Path) -> Iterator[Capture]:
    made = Capture(folder)
    yield made
    made.end()


@pytest.fixture
def start(capture: Capture, folder: Path) -> Iterator[Callable[[], Daemon]]:
    """What a JVM does to have a daemon."""
    made: list[Daemon] = []

    def one() -> Daemon:
        made.append(Daemon(capture.address, folder))
        return made[-1]

    yield one
    for daemon in made:
        daemon.started.kill()
        daemon.started.communicate()


Start = Callable[[], Daemon]


def test_a_daemon_is_a_fork_with_what_spark_gave_it(
    capture: Capture, start: Start, folder: Path
) -> None:
    daemon = start()
    assert daemon.socket.parent == folder
    # Whoever copies a data directory copies files.
    assert [one.name for one in capture.folder.iterdir()] == ["lock"]
    with daemon.worker() as worker:
        assert worker.ppid() == capture.fork.pid
        assert capture.fork.ppid() == capture.process.pid
        until(lambda: worker.name() == process_names.WORKER, "it has its name")
        assert capture.fork.name() == process_names.DAEMON
    # Ctrl-C is for the capture.
    capture.fork.send_signal(signal.SIGINT)
    with daemon.worker() as worker:
        assert worker.ppid() == capture.fork.pid
    assert daemon.end() == _ENDED
    until(lambda: not capture.fork.is_running(), "it ends with Spark, and somebody takes its end")
    assert capture.process.poll() is None


def test_a_second_daemon_loads_by_itself(capture: Capture, start: Start) -> None:
    """That of a JVM that was started again."""
    first, second = start(), start()
    with first.worker() as one, second.worker() as other:
        assert one.ppid() == capture.fork.pid
        assert other.ppid() == second.started.pid
        assert psutil.Process(second.started.pid).name() == process_names.DAEMON
    assert first.end() == second.end() == _ENDED


def test_what_spark_has_started_ends_with_the_daemon(capture: Capture, start: Start) -> None:
    """Whatever workers are left: only then Spark starts another."""
    daemon = start()
    with daemon.worker() as worker:
        capture.fork.kill()
        assert daemon.started.wait(60) == _ENDED
        assert worker.is_running()


def _killed(capture: Capture) -> None:
    capture.fork.kill()
    until(lambda: not capture.fork.is_running(), "it is killed")


def _gone(capture: Capture) -> None:
    capture.address.unlink()


@pytest.mark.parametrize("broken", [_killed, _gone])
def test_a_daemon_loads_by_itself_where_nobody_listens(
    capture: Capture, start: Start, broken: Callable[[Capture], None]
) -> None:
    broken(capture)
    daemon = start()
    with daemon.worker() as worker:
        assert worker.ppid() == daemon.started.pid
    assert daemon.end() == _ENDED


def test_a_capture_that_is_killed_leaves_its_lock_to_the_next_at_once(capture: Capture) -> None:
    capture.fork.suspend()
    try:
        capture.process.kill()
        capture.process.wait()
        with capture.lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        capture.fork.resume()
    until(lambda: not capture.fork.is_running(), "the fork ends, too")
    assert not capture.address.exists(), "whoever copies a data directory copies files"
