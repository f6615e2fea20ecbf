"""What ``ps`` and ``top`` call the Python processes that work for Spark."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

DAEMON = "spark-daemon"
"""What workers are forked from."""
WORKER = "spark-worker"


def take(name: str) -> None:
    """Give this process a name, of at most 15 bytes, where the system knows names."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)
