"""A real ``cdc server`` process that is killed, restarted and operated as its users do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from processor import process_names
from tests.api.server_process import READY
from tests.servers import process
from tests.waiting import until

# Tests wait for the second attempt, not for an operator's patience.
SETTINGS = """
[owner]
error-backoff-first = 0.5
error-backoff-max = 4.0
[source]
silence-s = 5.0
"""


SMALL_WINDOWS = """
[owner]
error-backoff-first = 0.5
error-backoff-max = 2.0
[processor]
window-bytes = 1048576
single-task-bytes = 16384
spark-start-after-s = 0
"""
"""Settings under which little takes several windows, and errors are tried again soon."""


class CaptureProcess:
    """One capture over ``folder``; started again it works on the same data at the same address."""

    def __init__(
        self,
        folder: Path,
        *,
        master: str = "local[2]",
        settings: str = "",
        module: str = "cdc.cli.entry",
        spark: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.data_dir = folder / "data"
        self.log = folder / "capture.log"
        self.port = process.free_port()
        self.ui_port = process.free_port()
        self.master = master
        self.module = module
        self._config = folder / "server.toml"
        chosen = {"spark.ui.enabled": "true", "spark.ui.port": str(self.ui_port)}
        chosen |= spark or {}
        lines = "".join(f'"{k}" = "{v}"\n' for k, v in chosen.items())
        self._config.write_text(f"{settings or SETTINGS}\n[processor.spark-conf]\n{lines}")
        self._process: subprocess.Popen[bytes] | None = None
        self._offset = 0
        # A connection of its own for each request: an idle one may end just when it is used again.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(timeout=120, trust_env=False, limits=limits)
        process.register(self)

    @property
    def url(self) -> str:
        """Return the address of the API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Return the process id of the capture."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Say whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, ready: bool = True) -> CaptureProcess:
        """Start; with ``ready`` wait until Spark is warm."""
        self._offset = self.log.stat().st_size if self.log.exists() else 0
        command = [sys.executable, "-m", self.module, "server"]
        command += ["--data-dir", str(self.data_dir), "--addr", f"127.0.0.1:{self.port}"]
        command += ["--spark-master", self.master, "--config", str(self._config)]
        # SIGABRT then writes the stacks of all threads into the log.
        env = {"PYTHONFAULTHANDLER": "1"}
        self._process = process.spawn(command, cwd=Path.cwd(), log=self.log, env=env)
        if ready:
            self.await_ready()
        return self

    def await_ready(self) -> None:
        """Wait until the capture that was started last is ready: its API answers, Spark is warm."""

        def ready() -> bool:
            written = self.text()[self._offset :]
            assert self.running, f"the capture ended:\n{written}"
            return READY.search(written) is not None

        try:
            until(ready, "the capture is ready", 120)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()[self._offset :][-4000:]}") from None

    def text(self) -> str:
        """Return everything that it has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self) -> None:
        """End the capture alone, as ``kill -9`` does; JVM and workers must follow by themselves."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def kill_with_its_disk(self) -> None:
        """As :meth:`kill`, and its data directory is not there any more.

        It is moved away, as Spark still removes files of its own there while it ends.
        """
        self.kill()
        self.data_dir.rename(self.data_dir.with_name(f"{self.data_dir.name}.lost"))

    def show_stacks(self) -> None:
        """End workers and capture so that all their stacks are in the log."""
        for one in [*self.workers(), psutil.Process(self.pid)]:
            one.send_signal(signal.SIGABRT)
        time.sleep(1.0)

    def interrupt(self, number: int = signal.SIGINT, timeout_s: float = 10.0) -> int:
        """Send Ctrl-C and return the exit code; fails after ``timeout_s``."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(timeout_s)

    def close(self) -> None:
        """Leave nothing of it behind."""
        everything = self.family()
        self.kill()
        for one in everything:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(everything, 5)
        self._http.close()

    def family(self) -> list[psutil.Process]:
        """Return every process of the capture's session: itself, the JVM, daemon and workers."""
        if self._process is None:
            return []
        found = []
        for pid in psutil.pids():
            try:
                if os.getsid(pid) == self._process.pid:
                    found.append(psutil.Process(pid))
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return found

    def workers(self) -> list[psutil.Process]:
        """Return those that deliver: forks of Spark's daemon, which may be gone, and residents."""
        return self._named(process_names.WORKER) + self._named(process_names.RESIDENT)

    def daemons(self) -> list[psutil.Process]:
        """Return Spark's Python daemons: what workers are forked from."""
        return self._named(process_names.DAEMON)

    def _named(self, name: str) -> list[psutil.Process]:
        found = []
        for one in self.family():
            with suppress(psutil.NoSuchProcess):
                if one.name() == name:
                    found.append(one)
        return found

    # --- operating it -----------------------------------------------------------------------

    def api(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Send one request to ``/api/v2``."""
        headers = {"Authorization": f"Bearer {(self.data_dir / 'token').read_text().strip()}"}
        url = f"{self.url}/api/v2{path}"
        return self._http.request(method, url, json=body, headers=headers)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of a request that must succeed."""
        answer = self.api(method, path, body)
        assert answer.is_success, answer.text
        return answer.json()

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``cdc cli …`` against this capture."""
        command = [sys.executable, "-m", "cdc.cli.entry", "cli", *words, "--server", self.url]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def register(self, name: str, uri: str, **more: Any) -> Any:
        """Register an upstream."""
        return self.ask("POST", "/upstreams", {"name": name, "uri": uri, **more})

    def create(
        self,
        feed: str,
        upstream: str,
        sink_uri: str,
        rules: list[str],
        config: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """Create a changefeed over the tables of ``rules``."""
        return self.ask(
            "POST", "/changefeeds", self.body(feed, upstream, sink_uri, rules, config, **more)
        )

    @staticmethod
    def body(
        feed: str,
        upstream: str,
        sink_uri: str,
        rules: list[str],
        config: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Return the request that creates a changefeed."""
        return {
            "changefeed_id": feed,
            "upstream": upstream,
            "sink_uri": sink_uri,
            "replica_config": {"filter": {"rules": rules}, **(config or {})},
            **more,
        }

    def feed(self, feed: str) -> Any:
        """Return a changefeed as the API shows it."""
        return self.ask("GET", f"/changefeeds/{feed}")

    def tso(self) -> int:
        """Return the present ts."""
        return int(self.ask("POST", "/tso")["tso"])

    def wait_state(self, feed: str, *states: str, timeout_s: float = 120) -> Any:
        """Wait for one of these states; return the changefeed."""

        def look() -> Any:
            found = self.feed(feed)
            return found if found["state"] in states else None

        return until(look, f"{feed} is {' or '.join(states)}", timeout_s)

    def wait_checkpoint(self, feed: str, ts: int = 0, timeout_s: float = 60) -> Any:
        """Wait until everything up to ``ts`` (now, if 0) is delivered; return the changefeed."""
        target = ts or self.tso()

        def look() -> Any:
            found = self.feed(feed)
            return found if found["checkpoint_ts"] >= target else None

        try:
            return until(look, f"checkpoint of {feed} reaches {target}", timeout_s)
        except AssertionError as error:
            upstream = self.ask("GET", "/upstreams")["items"]
            raise AssertionError(f"{error}\n{self.feed(feed)}\n{upstream}") from None
