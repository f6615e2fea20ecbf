"""``cdc`` as a user runs it: the server as a process, the command line beside it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from tests.servers.process import free_port, spawn, tail

_API = build_opener(ProxyHandler({}))
_POLL_S = 0.3

CDC = str(Path(sys.executable).parent / "cdc")
_READY = re.compile(rb"capture \S+: ready")


class CommandFailed(Exception):
    """A ``cdc`` command did not succeed."""


class Capture:
    """One ``cdc server`` over a data directory; after ``kill`` it can be started again."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.log = folder / "cdc.log"
        self._folder = folder
        self._say = say
        self._addr = f"127.0.0.1:{free_port()}"
        self.url = f"http://{self._addr}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it delivers."""
        offset = self.log.stat().st_size if self.log.exists() else 0
        command = [CDC, "server", "--data-dir", str(self._folder / "data"), "--addr", self._addr]
        self._say(f"$ cdc {shlex.join(command[1:])}")
        self._process = spawn(command, cwd=self._folder, log=self.log)
        # The first start after a change of the kernels compiles them.
        deadline = time.monotonic() + 180
        while not _READY.search(self.log.read_bytes()[offset:]):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CommandFailed(f"cdc server did not start:\n{tail(self.log)}")
            time.sleep(0.05)

    def kill(self) -> int:
        """``kill -9`` the server process; its pid."""
        assert self._process is not None
        pid = self._process.pid
        os.kill(pid, signal.SIGKILL)
        self._process.wait()
        return pid

    def stop(self) -> int:
        """Stop as Ctrl-C does; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(15)

    def end(self) -> None:
        """Make sure that nothing of it is left, its Spark included."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def cli(self, *words: str, quiet: bool = False) -> str:
        """``cdc cli …`` against this server; what it prints."""
        if not quiet:
            self._say(f"$ cdc cli {shlex.join(words)}")
        done = subprocess.run(
            [CDC, "cli", *words],
            env={**os.environ, "TIDEGATE_SERVER": f"http://{self._addr}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(f"cdc cli {words[0]} {words[1]}: {done.stderr.strip()}")
        return done.stdout

    def api(self, method: str, path: str) -> Any:
        """One request to its ``/api/v2``."""
        token = (self._folder / "data" / "token").read_text().strip()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        asked = Request(f"http://{self._addr}/api/v2{path}", method=method, headers=headers)
        asked.data = b"{}" if method == "POST" else None
        with _API.open(asked, timeout=60) as answer:
            return json.load(answer)

    def wait_delivered(self, feed: str, timeout_s: float) -> bool:
        """Wait until a changefeed has delivered all that the server's clock has seen by now."""
        now, deadline = self.api("POST", "/tso")["tso"], time.monotonic() + timeout_s
        while self.api("GET", f"/changefeeds/{feed}/status")["checkpoint_ts"] < now:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True
