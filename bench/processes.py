"""What processes use: seconds of processor, and memory that is theirs."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil


def figures_of(module: str, count: int) -> dict[str, float]:
    """What a module of the bench prints, as JSON, of ``count`` in a process of its own."""
    command = [sys.executable, "-m", module, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def most_bytes() -> float:
    """The most memory that this process has had, pages of files included."""
    # In KiB on Linux.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def cpu_seconds(pid: int) -> float:
    """User and system time of one process so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def family(pid: int) -> list[Any]:
    """The process and all below it."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_by_process(pid: int) -> dict[int, tuple[str, float]]:
    """Kind and CPU seconds of each living process of a capture, by process id."""
    found = {}
    for one in family(pid):
        try:
            times = one.cpu_times()
            kind = "capture" if one.pid == pid else "jvm" if "java" in one.name() else "workers"
        except psutil.NoSuchProcess:
            continue
        found[one.pid] = (kind, float(times.user + times.system))
    return found


def cpu_by_kind(pid: int) -> dict[str, float]:
    """CPU seconds of a capture: its own process, Spark's JVM, Spark's Python workers."""
    found = {"capture": 0.0, "jvm": 0.0, "workers": 0.0}
    for kind, seconds in cpu_by_process(pid).values():
        found[kind] += seconds
    return found


def cpu_since(before: dict[int, tuple[str, float]], pid: int) -> dict[str, float]:
    """CPU seconds by kind since ``before``, of the processes that still live.

    Spark ends idle workers; what they had used before must not count as less than nothing.
    """
    found = {"capture": 0.0, "jvm": 0.0, "workers": 0.0}
    for number, (kind, seconds) in cpu_by_process(pid).items():
        found[kind] += seconds - before.get(number, (kind, 0.0))[1]
    return found


def own_bytes(pid: int) -> int:
    """Anonymous and shared memory of a process: resident bytes without file-backed pages."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    kib = 0
    for line in text.splitlines():
        if line.startswith(("RssAnon:", "RssShmem:")):
            kib += int(line.split()[1])
    return kib * 1024


def proportional_bytes(pid: int) -> int:
    """The same with shared pages counted once (PSS without its file-backed part), in bytes."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    kib = 0
    for line in text.splitlines():
        if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
            kib += int(line.split()[1])
    return kib * 1024


def python_pids(pid: int) -> list[int]:
    """Processes of a capture that run Python."""
    found = []
    for one in family(pid):
        try:
            if "java" not in one.name():
                found.append(one.pid)
        except psutil.NoSuchProcess:
            continue
    return found


@dataclass
class Sampler:
    """Calls ``probe`` in a thread every ``every_s`` seconds; keeps time and value."""

    probe: Callable[[], float]
    every_s: float
    samples: list[tuple[float, float]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Sampler:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    @property
    def highest(self) -> float:
        """The largest value seen."""
        return max((value for _, value in self.samples), default=0.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.samples.append((time.monotonic(), self.probe()))
            self._stop.wait(self.every_s)
