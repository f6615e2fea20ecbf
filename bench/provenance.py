"""Where a figure comes from: code, machine, settings, servers, how long it took."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import debezium
from bench.settings import Settings
from tests.servers import fetch

_ROOT = Path(__file__).parents[1]


def code() -> dict[str, Any]:
    """The code that runs: to be asked when the program begins, as a checkout may change later."""
    return {
        "commit": _git("rev-parse", "HEAD") or None,
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def of(
    settings: Settings, running: dict[str, Any], began: datetime, load_average: float
) -> dict[str, Any]:
    """Provenance of an item that began then and has ended now; ``settings`` of 0 are defaults.

    ``running`` is what :func:`code` said; ``load_average`` is that of the minute before the item
    began: other work on the machine shows.
    """
    return {
        **running,
        "date": began.astimezone(UTC).isoformat(timespec="seconds"),
        "seconds": round((datetime.now(UTC) - began).total_seconds(), 1),
        "machine": machine() | {"load_average": round(load_average, 2)},
        "settings": asdict(settings),
        "servers": {
            **{n: _dotted(fetch(n).version) for n in (settings.server, "kafka-4.1")},
            "debezium": debezium.VERSION,
        },
    }


def machine() -> dict[str, Any]:
    """The machine, as far as a figure depends on it."""
    info = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
