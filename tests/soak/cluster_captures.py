"""The captures of one cluster: each with a data directory and ways to the store of its own."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil

from cdc.base.clock import SystemClock
from cdc.base.errors import TransientError
from cdc.coord.keys import Keys
from cdc.coord.messages import CaptureInfo
from cdc.coord.opening import open_store
from cdc.coord.stored import read
from processor.phase import Phase
from tests.e2e.capture_process import CaptureProcess
from tests.servers.etcd import Etcd
from tests.servers.proxy import Proxy
from tests.soak.phases import PhaseLog
from tests.waiting import until


class Captures:
    """``count`` captures whose session lasts ``ttl_s``; between each and each etcd stands a proxy.

    ``store`` is what they share, seen past the proxies. ``down`` are those (by number) that are
    away on purpose: others are started again by :meth:`supervise`, which counts them in ``ended``.
    """

    def __init__(
        self,
        stack: ExitStack,
        folder: Path,
        etcd: Etcd,
        settings: str,
        *,
        count: int = 3,
        ttl_s: int = 5,
        module: str = "cdc.cli.entry",
    ) -> None:
        self.all: list[CaptureProcess] = []
        self.phases: list[PhaseLog] = []
        self.down: set[int] = set()
        self.ended = 0
        self._lines: list[Sequence[Proxy]] = []
        self._keys = Keys()
        self.store = open_store(f"{etcd.address}/soak", folder / "none", SystemClock())
        stack.callback(self.store.close)
        for n in range(count):
            line = [stack.enter_context(Proxy(member.port)) for member in etcd.members]
            store = "etcd://" + ",".join(f"127.0.0.1:{p.port}" for p in line)
            head = f'store = "{store}/soak"\ncapture-session-ttl = {ttl_s}\n'
            folder_n = folder / f"capture-{n}"
            capture = CaptureProcess(folder_n, settings=head + settings, module=module)
            stack.callback(capture.close)
            self.all.append(capture)
            self.phases.append(PhaseLog(capture.log))
            self._lines.append(line)

    def start(self) -> None:
        """Start all, and wait until each has Spark."""
        for capture in self.all:
            capture.start(ready=False)
        for capture in self.all:
            capture.await_ready()

    def owner(self) -> int | None:
        """The number of the capture that the store knows as owner; None between two."""
        try:
            entry = self.store.get(self._keys.owner)
            return self._number(entry.value.decode()) if entry else None
        except TransientError:
            return None

    def idles(self, feed: str) -> bool:
        """Whether the capture that delivers a changefeed, which need not be the owner, idles."""
        tasks = self.all[self.await_owner()].feed(feed)["task_status"]
        n = self._number(tasks[0]["capture_id"]) if tasks else None
        return n is not None and self.phases[n].of(feed) == Phase.IDLE

    def _number(self, capture: str) -> int | None:
        """That of the capture with this id; None of one that has gone."""
        known = self.store.get(self._keys.capture(capture))
        if known is None:
            return None
        port = int(read(known, CaptureInfo).address.rpartition(":")[2])
        return next(n for n, capture in enumerate(self.all) if capture.port == port)

    def await_owner(self, timeout_s: float = 60.0, besides: int | None = None) -> int:
        """Wait until there is an owner, another one than ``besides``; its number."""

        def look() -> list[int]:
            found = self.owner()
            return [found] if found is not None and found != besides else []

        return until(look, "there is an owner", timeout_s)[0]

    def await_another(self, timeout_s: float) -> int:
        """Wait until there is an owner, and another capture beside it; the owner's number."""
        prefix = self._keys.capture_prefix

        def look() -> bool:
            try:
                return len(self.store.range(prefix)[1]) > 1
            except TransientError:
                return False

        until(look, "another capture stands by", timeout_s)
        return self.await_owner(timeout_s)

    def supervise(self) -> None:
        """Start what has ended although it should run."""
        for n, capture in enumerate(self.all):
            if n not in self.down and not capture.running:
                self.ended += 1
                capture.start(ready=False)

    def lose(self, n: int, *, disk: bool = False) -> None:
        """``kill -9`` it, with all of its Spark; ``disk``: its data directory is gone as well."""
        self.down.add(n)
        capture = self.all[n]
        spark = capture.family()
        capture.kill()
        for process in spark:
            _signal(process, signal.SIGKILL)
        if disk:
            shutil.rmtree(capture.data_dir)

    def back(self, n: int) -> None:
        """Start it again."""
        self.all[n].start(ready=False)
        self.down.discard(n)

    def freeze(self, n: int, *, spark: bool = False) -> None:
        """Stop its process where it is; with ``spark`` its JVM and workers too."""
        for process in self._of(n, spark):
            _signal(process, signal.SIGSTOP)

    def thaw(self, n: int, *, spark: bool = False, workers_first_s: float = 0.0) -> None:
        """Let it go on, as if no time had passed.

        ``workers_first_s``: by so much its workers are ahead of what would end them; on a host that
        wakes the order is nobody's.
        """
        if spark and workers_first_s and self.all[n].running:
            for worker in self.all[n].workers():
                _signal(worker, signal.SIGCONT)
            time.sleep(workers_first_s)
        for process in self._of(n, spark):
            _signal(process, signal.SIGCONT)

    def cut_off(self, n: int) -> None:
        """No packet between it and the store arrives any more."""
        for proxy in self._lines[n]:
            proxy.stall()

    def reconnect(self, n: int) -> None:
        """The packets arrive again."""
        for proxy in self._lines[n]:
            proxy.go_on()

    def terminate(self, n: int) -> None:
        """Ask it to end, as a supervisor does, and wait for it."""
        self.down.add(n)
        code = self.all[n].interrupt(signal.SIGTERM, 30.0)
        assert code == 0, f"capture {n} ended with {code}"

    def _of(self, n: int, spark: bool) -> list[psutil.Process]:
        capture = self.all[n]
        if not capture.running:
            return []
        return capture.family() if spark else [psutil.Process(capture.pid)]


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return
