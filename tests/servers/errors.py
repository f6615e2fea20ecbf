"""What can go wrong while servers are fetched and started."""

from __future__ import annotations


class Unavailable(Exception):
    """A server cannot be had on this machine; the text is one line that says which and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} is not available: {' '.join(reason.split())[:400]}")
        self.name = name


class StartFailed(RuntimeError):
    """A server was there but did not start; the text ends with its log's last lines."""
