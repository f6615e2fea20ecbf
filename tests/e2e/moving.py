"""An upstream that goes from one of two captures to the other, and a capture that is lost."""

from __future__ import annotations

from dataclasses import dataclass

from tests.e2e.capture_process import CaptureProcess
from tests.waiting import until


@dataclass
class Moving:
    """``feed`` is delivered where its upstream is; ``ids`` are those of ``captures``, in order."""

    captures: list[CaptureProcess]
    upstream: str
    feed: str
    ids: tuple[str, ...] = ()

    def start(self) -> None:
        """Start both captures, side by side."""
        for capture in self.captures:
            capture.start(ready=False)
        for capture in self.captures:
            capture.await_ready()
        self.ids = tuple(str(c.ask("GET", "/status")["id"]) for c in self.captures)

    def at(self) -> int:
        """Which capture has the upstream, -1 while none has it."""
        asked = next(c for c in self.captures if c.running)
        tasks = asked.ask("GET", f"/changefeeds/{self.feed}")["task_status"]
        return self.ids.index(str(tasks[0]["capture_id"])) if tasks else -1

    def move(self) -> CaptureProcess:
        """Move the upstream to the other capture; the one that it has left."""
        left = self.at()
        goes = 1 - left
        words = ("upstream", "move", "-u", self.upstream, "--capture", self.ids[goes])
        done = self.captures[0].cli(*words)
        assert done.returncode == 0, done.stderr
        until(lambda: self.at() == goes, "it has moved")
        return self.captures[left]

    def lose(self) -> CaptureProcess:
        """Kill the capture that has it, with its disk; the one that goes on."""
        lost = self.at()
        self.captures[lost].kill_with_its_disk()
        until(lambda: self.at() == 1 - lost, "the other one has it", 90)
        return self.captures[1 - lost]
