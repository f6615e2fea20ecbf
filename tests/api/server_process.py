"""A real ``cdc server`` process, and the command line against it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.server.without_spark import STARTED
from tests.waiting import PATIENCE

READY = re.compile(r"capture \S+: ready")
_LISTENING = re.compile(r"listening on (https?://\S+)")
_SHOWN_LOG = 5000


class CdcServer:
    """One server over a data directory; started again it works on the same data."""

    def __init__(
        self,
        data_dir: Path,
        *flags: str,
        module: str = "cdc.cli.entry",
        python: Path | str = sys.executable,
    ) -> None:
        self.data_dir = data_dir
        self.module = module
        self.python = str(python)
        self.flags = flags
        self.log = data_dir.parent / f"{data_dir.name}.log"
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}

    def start(self, *, ready: bool = True) -> CdcServer:
        """Start; waits for the API, and with ``ready`` until it could deliver."""
        # As a login shell starts it, whatever this machine allows.
        command = [
            "prlimit",
            "--nofile=1024:",
            self.python,
            "-m",
            self.module,
            "server",
            "--data-dir",
        ]
        command += [str(self.data_dir), "--addr", "127.0.0.1:0"]
        command += ["--spark-master", "local[2]", *self.flags]
        offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True,
                env=os.environ | self.environment,
            )  # fmt: skip
        self.url = self._await(offset, _LISTENING, 60)[1]
        if ready:
            self._await(offset, READY, 120)
        return self

    def _await(self, offset: int, what: re.Pattern[str], timeout_s: float) -> re.Match[str]:
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE * timeout_s
        while time.monotonic() < deadline:
            text = self.log.read_bytes()[offset:].decode(errors="replace")
            if found := what.search(text):
                return found
            assert self.process.poll() is None, f"the server ended:\n{text}"
            time.sleep(0.05)
        raise AssertionError(f"no {what.pattern!r} in time:\n{text}")

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 30.0) -> int:
        """Send a signal and wait; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout_s)

    def end(self) -> None:
        """Make sure that nothing of it is left."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def token(self) -> str:
        """What every request but those for health and metrics must have."""
        return (self.data_dir / "token").read_text().strip()

    def api(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """One request to ``/api/v2``."""
        return self.send(method, f"/api/v2{path}", json=body)

    def send(self, method: str, path: str, token: str | None = None, **how: Any) -> httpx.Response:
        """One request, with the server's token unless another one (or none: "") is given."""
        given = self.token if token is None else token
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        headers |= how.pop("headers", {})
        url = f"{self.url}{path}"
        # Without this, httpx reads all authorities for each request, which are not asked here.
        how = {"verify": False} | how if url.startswith("http:") else how
        try:
            return httpx.request(method, url, headers=headers, timeout=120, trust_env=False, **how)
        except httpx.ConnectError as error:
            error.add_note(self.log.read_text(errors="replace")[-_SHOWN_LOG:])
            raise

    def metrics(self) -> dict[str, float]:
        """All samples of ``/metrics`` by their name with labels."""
        text = httpx.get(f"{self.url}/metrics", timeout=30, trust_env=False, verify=False).text
        lines = (x.rpartition(" ") for x in text.splitlines() if x and not x.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def cli(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """``cdc cli …`` against this server."""
        return run_cdc("cli", *words, "--server", self.url, stdin=stdin)

    def cli_json(self, *words: str) -> Any:
        """The same with ``--json``, which must succeed."""
        done = self.cli(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def spark_at_once(folder: Path) -> tuple[str, str]:
    """Flags of a server that starts Spark before anything needs it; ``folder`` gets their file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "at-once.toml"
    file.write_text('[processor]\nspark-start = "at-once"\n')
    return "--config", str(file)


@contextmanager
def without_spark(folder: Path, *flags: str) -> Iterator[CdcServer]:
    """A running server below ``folder``, whose Spark is started at once and is none."""
    started = folder / "started"
    started.touch()
    made = CdcServer(folder / "data", *flags, module="tests.server.without_spark")
    made.environment = {STARTED: str(started)}
    try:
        yield made.start()
    finally:
        made.end()


def run_cdc(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The ``cdc`` command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "cdc.cli.entry", *words],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=120,
        check=False,
    )
