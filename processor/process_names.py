"""What ``ps`` and ``top`` call the processes that work for a capture."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

DAEMON = "spark-daemon"
"""What Spark's workers are forked from."""
WORKER = "spark-worker"
SPAWNER = "worker-spawner"
"""What resident workers are forked from."""
RESIDENT = "resident-worker"


def take(name: str) -> None:
    """Give this process a name, of at most 15 bytes, where the system knows names."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)
