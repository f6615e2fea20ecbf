"""Log lines of a server: one line each, text or JSON; secrets masked, user data as asked for."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cdc.base.errors import InvalidError, TidegateError
from cdc.base.log_fields import FieldsFilter, fields_of
from cdc.base.redaction import RedactMode, redacted, texts_are_marked, user_data
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


class RedactionLoosened(InvalidError):
    """A running server shows no more user data in its logs than it did."""

    code = "TG:ErrLogRedactionLoosened"


class Redaction:
    """How much user data the lines of this process show."""

    def __init__(self) -> None:
        self.mode = RedactMode.OFF

    def tighten(self, mode: RedactMode) -> RedactMode:
        """Show less from now on; the mode until now. Raises RedactionLoosened."""
        before = self.mode
        if mode.strictness < before.strictness:
            raise RedactionLoosened(
                f"it is {before} now, and can only become stricter while the server runs",
                object=f"redact_info_log {mode}",
                hint="set redact-info-log under [security] of server.toml, and start anew",
            )
        self.mode = mode
        return before

    def __call__(self, text: str) -> str:
        """What may be shown of a text."""
        return mask_text(redacted(text, self.mode))


redaction = Redaction()


@contextmanager
def _with_marks() -> Iterator[None]:
    token = texts_are_marked.set(True)
    try:
        yield
    finally:
        texts_are_marked.reset(token)


def _traceback(error: BaseException | None) -> str:
    """Frames and errors, as the interpreter shows them; texts of others' errors are user data."""
    lines: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        text = str(error)
        if text and not isinstance(error, TidegateError):
            text = user_data(text)
        own = traceback.format_tb(error.__traceback__)
        lines[:0] = [*own, f"{type(error).__module__}.{type(error).__qualname__}: {text}\n"]
        follows = None if error.__suppress_context__ else error.__context__
        error = error.__cause__ or follows
    return "Traceback (most recent call last):\n" + "".join(lines).rstrip("\n")


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
        with _with_marks():
            return redaction(super().format(record)).replace("\n", "\\n")

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is the base class's
        return _traceback(ei[1])


class JsonFormatter(logging.Formatter):
    """One JSON object a line; its keys are listed in docs/operate.md."""

    def format(self, record: logging.LogRecord) -> str:
        with _with_marks():
            return json.dumps(self._line(record), ensure_ascii=False)

    def _line(self, record: logging.LogRecord) -> dict[str, Any]:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redaction(record.getMessage()),
            **{name: mask_text(text) for name, text in fields_of(record).items()},
        }
        error = _error_of(record)
        if error is not None:
            shown = {"code": error.code, "object": error.object, "position": error.position}
            line["error"] = {k: redaction(v) for k, v in shown.items() if v}
        if record.exc_info:
            line["traceback"] = redaction(_traceback(record.exc_info[1]))
        return line


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
    redaction.mode = settings.security.redact_info_log
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
