"""Memory and processor time of the capture's processes: itself, Spark's JVM, and its workers."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from processor import process_names

CAPTURE, JVM, WORKER = "capture", "jvm", "worker"
_FORKING = (process_names.DAEMON, process_names.SPAWNER)
_PROC = Path("/proc")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    name: str
    cpu_s: float
    begun: int
    """Ticks since the machine's start: a pid may come again."""


class ProcessesScraped(Collector):
    """Sums by kind of process. Nothing where there is no ``/proc``.

    A worker that ends takes its time out of a sum but not out of the counter: what each process has
    used since it was last looked at is added.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid or os.getpid()
        self._guard = threading.Lock()
        self._last: dict[tuple[int, int], float] = {}
        self._cpu_s: defaultdict[str, float] = defaultdict(float)

    def collect(self) -> Iterator[Metric]:
        """Processor time, memory and number of processes, each by kind."""
        cpu = CounterMetricFamily(
            "tidegate_process_cpu_seconds", "Processor time by kind of process", labels=["process"]
        )
        memory = GaugeMetricFamily(
            "tidegate_process_memory_bytes",
            "Memory by kind of process; a page that several share counts once (PSS)",
            labels=["process"],
        )
        count = GaugeMetricFamily(
            "tidegate_processes", "Processes of the capture, by kind", labels=["process"]
        )
        with self._guard:
            found = _kinds(self._pid)
            known = {}
            for process, kind in found:
                key = (process.pid, process.begun)
                self._cpu_s[kind] += max(0.0, process.cpu_s - self._last.get(key, 0.0))
                known[key] = process.cpu_s
            self._last = known
            for kind, seconds in self._cpu_s.items():
                cpu.add_metric([kind], seconds)
        for kind in sorted({kind for _, kind in found}):
            ours = [process for process, k in found if k == kind]
            memory.add_metric([kind], sum(_memory(process.pid) for process in ours))
            count.add_metric([kind], len(ours))
        yield from (cpu, memory, count)


def _kinds(pid: int) -> list[tuple[_Process, str]]:
    """The process and its descendants, with their kinds."""
    children: defaultdict[int, list[_Process]] = defaultdict(list)
    root = None
    for folder in _PROC.glob("[0-9]*"):
        process = _read(folder)
        if process is not None:
            children[process.parent].append(process)
            if process.pid == pid:
                root = process
    found = [] if root is None else [(root, CAPTURE)]
    for process, kind in found:
        # Whatever the JVM starts is its workers; what forks workers may be the capture's own child.
        below = WORKER if kind in (JVM, WORKER) else JVM
        found += (
            (child, WORKER if child.name in _FORKING else below) for child in children[process.pid]
        )
    return found


def _read(folder: Path) -> _Process | None:
    try:
        text = (folder / "stat").read_text()
    except OSError:
        # It has ended meanwhile.
        return None
    # The name is in brackets, and may have any character.
    name, _, rest = text.partition("(")[2].rpartition(") ")
    fields = rest.split()
    cpu_s = (int(fields[11]) + int(fields[12])) * _TICK_S
    return _Process(int(folder.name), int(fields[1]), name, cpu_s, int(fields[19]))


def _memory(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
