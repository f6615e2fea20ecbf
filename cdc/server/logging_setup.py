"""Log lines of a server: one line each, secrets masked."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from cdc.base.secrets import mask_text


class LineFormatter(logging.Formatter):
    """``2026-11-20T12:34:56.789Z INFO owner: message``; a traceback stays on the same line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(  # noqa: N802 - the name is the base class's
        self, record: logging.LogRecord, datefmt: str | None = None
    ) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{at}.{int(record.msecs):03d}Z"

    def format(self, record: logging.LogRecord) -> str:
        return mask_text(super().format(record)).replace("\n", "\\n")


def configure(level: str, file: Path | None = None) -> None:
    """Send every logger to stderr or to ``file``; chatty libraries only from warnings on."""
    handler: logging.Handler
    handler = logging.FileHandler(file) if file else logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    set_level(level)
    # Its every attempt to connect is an "error"; what comes of them is in our own errors.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    for noisy in ("py4j", "uvicorn.error", "uvicorn.access", "numba", "asyncio", "sqlglot"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def set_level(level: str) -> None:
    """Change how much is logged while running."""
    logging.getLogger().setLevel("WARNING" if level == "warn" else level.upper())
