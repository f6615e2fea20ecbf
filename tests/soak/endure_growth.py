"""What grows: memory of each process and size of store and log, sampled, and said as a slope."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from processor import process_names
from tests.e2e.capture_process import CaptureProcess

MB = 1e6
# Until then caches fill and compilers compile: a sixth of the run, ten minutes of an hour.
_WARM = 1 / 6
# What may still come in once (a larger batch than any before), however short the run is.
_ONCE_MB = 24.0
_MB_PER_MIN = 0.5
_WORKER, _CAPTURE, _JVM, _DAEMON = "worker", "capture", "JVM", "daemon"


@dataclass(frozen=True)
class Growth:
    """One thing's samples behind the warm part as a straight line."""

    name: str
    first: float
    last: float
    most: float
    mb_per_min: float
    minutes: float
    allowed_mb: float

    @property
    def flat(self) -> bool:
        """Whether it stays below what may come in once and what is allowed a minute."""
        return self.mb_per_min * self.minutes <= self.allowed_mb + _MB_PER_MIN * self.minutes

    def row(self, changes_per_min: float) -> str:
        """One line of the table."""
        each = self.mb_per_min / changes_per_min if changes_per_min else 0.0
        return (
            f"{self.name:24} {self.first:9.1f} {self.last:9.1f} {self.most:9.1f}"
            f" {self.mb_per_min:9.3f} {each:9.4f}  {'flat' if self.flat else 'GROWS'}"
        )


def head() -> str:
    """The head of the table."""
    columns = ("first", "last", "most", "MB/min", "MB/DDL")
    return f"{'MB, behind the warm part':24} " + " ".join(f"{c:>9}" for c in columns)


def grown(
    samples: Mapping[str, list[tuple[float, float]]], end_s: float, allowed: Mapping[str, float]
) -> list[Growth]:
    """The line through the samples (seconds, MB) of each thing that lived behind the warm part.

    ``allowed``: MB that a thing may gain once, by the first word of its name.
    """
    found = []
    for name, points in sorted(samples.items()):
        late = np.array([p for p in points if p[0] >= end_s * _WARM])
        if len(late) < 4:
            continue
        minutes = (late[-1, 0] - late[0, 0]) / 60
        slope = float(np.polyfit(late[:, 0] / 60, late[:, 1], 1)[0])
        once = allowed.get(name.split()[0], _ONCE_MB)
        first, last, most = late[0, 1], late[-1, 1], late[:, 1].max()
        found.append(Growth(name, first, last, most, slope, minutes, once))
    return found


class Sampler:
    """Looks at a capture's processes and folder every ``every_s`` seconds until ``stop``.

    Of a process it takes anonymous memory: pages of the log that it has mapped belong to the
    file, and go when somebody needs the room.
    """

    def __init__(self, capture: CaptureProcess, every_s: float) -> None:
        self.samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._capture = capture
        self._every_s = every_s
        self._stopping = threading.Event()
        self._began = time.monotonic()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """End; the seconds that were sampled."""
        self._stopping.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]
        return time.monotonic() - self._began

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._look(time.monotonic() - self._began)
                self._stopping.wait(self._every_s)
        except BaseException as error:
            self._failed.append(error)

    def _look(self, at: float) -> None:
        total = 0.0
        workers = {w.pid for w in self._capture.workers()}
        for one in self._capture.family():
            try:
                name = _name(one, self._capture, workers)
                anonymous, mapped = _memory(one.pid)
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                continue
            if name is None:
                continue
            self.samples[name].append((at, anonymous))
            if name.startswith(_WORKER):
                total += anonymous
                self.samples[f"mapped {name}"].append((at, mapped))
        self.samples["workers together"].append((at, total))
        for name, size in sizes(self._capture.data_dir).items():
            self.samples[name].append((at, size))


def _name(one: psutil.Process, capture: CaptureProcess, workers: set[int]) -> str | None:
    if one.pid == capture.pid:
        return _CAPTURE
    if one.pid in workers:
        return f"{_WORKER} {one.pid}"
    return {process_names.DAEMON: _DAEMON, "java": _JVM}.get(one.name())


def _memory(pid: int) -> tuple[float, float]:
    """(anonymous, file-backed) resident MB."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in ("RssAnon", "RssFile", "RssShmem"):
            found[key] = int(value.split()[0]) * 1024 / MB
    if not found:
        raise ProcessLookupError(pid)
    return found["RssAnon"] + found["RssShmem"], found["RssFile"]


def sizes(data_dir: Path) -> dict[str, float]:
    """MB of store and log, and of what the log keeps beside its segments."""
    known: dict[str, Callable[[Path], bool]] = {
        "store": lambda p: p.name.startswith("meta.db"),
        "log": lambda p: "log" in p.parts[:1],
        "log tables": lambda p: p.name == "tables",
        "log statements": lambda p: p.name == "statements",
        "log snapshots": lambda p: p.parent.name == "schema" and p.suffix == ".json",
    }
    found = dict.fromkeys(known, 0.0)
    # Folders come and go meanwhile, which os.walk bears and rglob does not.
    for path in (Path(at, name) for at, _, names in os.walk(data_dir) for name in names):
        try:
            size = path.stat().st_size / MB
        except FileNotFoundError:
            continue
        for name, ours in known.items():
            if ours(path.relative_to(data_dir)):
                found[name] += size
    return found
