"""Log lines of a server: one line each, as text or as JSON, secrets masked."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from cdc.base.errors import InvalidError, TidegateError
from cdc.base.log_fields import FieldsFilter, fields_of
from cdc.base.secrets import mask_text
from cdc.server.log_rotation import RotatedFile
from cdc.server.settings import LineFormat, LogLevel, ServerSettings

LOGGERS = (
    "api capture changefeed owner parts phase processor puller server session sink upstream verify"
).split()
"""Parts of a capture whose level can be set by itself."""

_NOISY = ("py4j", "uvicorn.error", "uvicorn.access", "numba", "asyncio", "sqlglot")


class LoggerUnknown(InvalidError):
    """No part of a capture logs under this name."""

    code = "TG:ErrLoggerUnknown"


def _time(record: logging.LogRecord) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{at}.{int(record.msecs):03d}Z"


class LineFormatter(logging.Formatter):
    """``2026-11-20T12:34:56.789Z INFO owner: message``; a traceback stays on the same line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(  # noqa: N802 - the name is the base class's
        self, record: logging.LogRecord, datefmt: str | None = None
    ) -> str:
        return _time(record)

    def format(self, record: logging.LogRecord) -> str:
        return mask_text(super().format(record)).replace("\n", "\\n")


class JsonFormatter(logging.Formatter):
    """One JSON object a line; its keys are listed in docs/operate.md."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_text(record.getMessage()),
            **{name: mask_text(text) for name, text in fields_of(record).items()},
        }
        error = _error_of(record)
        if error is not None:
            shown = {"code": error.code, "object": error.object, "position": error.position}
            line["error"] = {k: mask_text(v) for k, v in shown.items() if v}
        if record.exc_info:
            line["traceback"] = mask_text(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def _error_of(record: logging.LogRecord) -> TidegateError | None:
    logged = record.args if isinstance(record.args, tuple) else ()
    raised = record.exc_info[1] if record.exc_info else None
    errors = (e for e in (raised, *logged) if isinstance(e, TidegateError))
    return next(errors, None)


_FORMATS: dict[LineFormat, Callable[[], logging.Formatter]] = {
    LineFormat.TEXT: LineFormatter,
    LineFormat.JSON: JsonFormatter,
}


def configure(settings: ServerSettings) -> None:
    """Send every logger where the settings say; chatty libraries only from warnings on."""
    handler: logging.Handler
    if settings.log_file:
        handler = RotatedFile(settings.log_file, settings.log.file)
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(FieldsFilter())
    handler.setFormatter(_FORMATS[settings.log.format]())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    set_level(settings.log_level)
    for name, level in settings.log.levels.items():
        set_level(level, name)
    # Its every attempt to connect is an "error"; what comes of them is in our own errors.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


def set_level(level: LogLevel, logger: str = "") -> None:
    """Change how much is logged while running: by all, or by one of ``LOGGERS``.

    Raises LoggerUnknown.
    """
    if logger and logger not in LOGGERS:
        raise LoggerUnknown(
            "no part of the server logs under this name",
            object=logger[:100],
            hint=f"give one of {', '.join(LOGGERS)}",
        )
    logging.getLogger(logger or None).setLevel("WARNING" if level == "warn" else level.upper())
