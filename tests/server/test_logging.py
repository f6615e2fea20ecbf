"""What the server logs: whole lines in either form, what they are about, files that end in time."""

from __future__ import annotations

import json
import logging
import os
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.base.errors import DefiniteError
from cdc.base.log_fields import about
from cdc.base.parts import Parts
from cdc.base.redaction import RedactMode, plain, redacted, user_data
from cdc.server.log_rotation import RotatedFile, rotated
from cdc.server.logging_setup import (
    LOGGERS,
    LoggerUnknown,
    RedactionLoosened,
    configure,
    redaction,
    set_level,
)
from cdc.server.settings import LogFileSettings, LogLevel, load

_LOG = logging.getLogger("processor")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    names = ("", "kafka", *LOGGERS)
    levels = {name: logging.getLogger(name or None).level for name in names}
    mode = redaction.mode
    handlers = logging.getLogger().handlers[:]
    yield
    redaction.mode = mode
    for handler in logging.getLogger().handlers[:]:
        if handler not in handlers:
            handler.close()
    logging.getLogger().handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)


def _configured(folder: Path, text: str = '[log]\nformat = "json"\n') -> Path:
    config = folder / "server.toml"
    config.write_text(text)
    log = folder / "cdc.log"
    configure(load(config, {"data_dir": folder, "log_file": log}))
    return log


def test_a_json_line_has_its_fields_its_error_and_no_secret(tmp_path: Path) -> None:
    log = _configured(tmp_path)
    error = DefiniteError(
        "mysql://root:S3cret@h:1 is gone", object="table a.b", position="ts 5", hint="look"
    )
    with about(changefeed="f1"), about(request="r1"):
        _LOG.warning("it failed: %s", error)
    try:
        raise error
    except DefiniteError:
        _LOG.exception("two\nlines")
    first, second = [json.loads(line) for line in log.read_text().splitlines()]
    assert "S3cret" not in log.read_text()
    assert first["changefeed"] == "f1"
    assert first["request"] == "r1"
    assert first["level"] == "warning"
    assert first["logger"] == "processor"
    assert first["error"] == {"code": error.code, "object": "table a.b", "position": "ts 5"}
    assert second["message"] == "two\nlines"
    assert "changefeed" not in second
    assert "Traceback" in second["traceback"]


def test_what_a_part_logs_is_about_what_the_part_is_for(tmp_path: Path) -> None:
    log = _configured(tmp_path)
    stopping = threading.Event()

    def turn() -> bool:
        _LOG.info("a turn")
        return False

    parts = Parts()
    made = [
        parts.make("changefeed f1", turn, stopping, changefeed="f1"),
        parts.make("puller u1", turn, stopping, upstream="u1"),
    ]
    for part in made:
        part.start()
        part.join(5.0)
    fields = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(f.get("changefeed"), f.get("upstream")) for f in fields] == [
        ("f1", None),
        (None, "u1"),
    ]


def test_the_level_of_one_part_leaves_the_others(tmp_path: Path) -> None:
    log = _configured(tmp_path, '[log.levels]\nowner = "error"\n')
    set_level(LogLevel.DEBUG, "puller")
    for name in ("puller", "owner", "processor"):
        logging.getLogger(name).debug("debug of %s", name)
        logging.getLogger(name).warning("warning of %s", name)
    texts = [line.partition(": ")[2] for line in log.read_text().splitlines()]
    assert texts == ["debug of puller", "warning of puller", "warning of processor"]
    with pytest.raises(LoggerUnknown):
        _configured(tmp_path, '[log.levels]\nnobody = "error"\n')


def test_a_full_file_is_renamed_and_no_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "cdc.log"
    (tmp_path / "cdc-notes.log").write_text("of somebody else")
    handler = RotatedFile(path, LogFileSettings(max_size=1))
    handler.setFormatter(logging.Formatter())
    lines = [f"{i} " + "x" * 300_000 for i in range(10)]
    for line in lines:
        handler.emit(logging.LogRecord("a", 20, "f", 1, line, None, None))
    handler.close()
    files = [*sorted(rotated(path)), path]
    assert len(files) == 4
    assert all(file.stat().st_size <= 1 << 20 for file in files)
    assert "".join(file.read_text() for file in files).splitlines() == lines


def test_old_files_go_by_number_and_by_age(tmp_path: Path) -> None:
    path = tmp_path / "cdc.log"
    old = [tmp_path / f"cdc-2026-11-{day:02d}T00-00-00.000.log" for day in range(1, 6)]
    for file in old:
        file.write_text("old")
    (tmp_path / "cdc-notes.log").write_text("of somebody else")
    RotatedFile(path, LogFileSettings(max_backups=3)).close()
    assert sorted(rotated(path)) == old[2:]
    long_ago_s = time.time() - 3 * 86_400
    os.utime(old[2], (long_ago_s, long_ago_s))
    RotatedFile(path, LogFileSettings(max_days=2)).close()
    assert sorted(rotated(path)) == old[3:]
    assert (tmp_path / "cdc-notes.log").exists()


_KEY = "id=4711, mail=jo@example.org"
# Each with what a reader of the log sees of the key.
_SHOWN = {
    RedactMode.OFF: f"t, row {_KEY}: too long",
    RedactMode.MARKER: f"t, row ‹{_KEY}›: too long",
    RedactMode.ON: "t, row ?: too long",
}


def _failed() -> None:
    try:
        raise ValueError(f"bad {_KEY}")
    except ValueError as e:
        raise pickle.loads(pickle.dumps(_wrapped())) from e


def _wrapped() -> DefiniteError:
    """A row's error as others wrap it on its way to a log."""
    inner = DefiniteError("too long", object=f"t, row {user_data(_KEY)}")
    return DefiniteError(inner.message, object=inner.object)


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("mode", list(RedactMode))
def test_lines_show_user_data_as_they_are_told_to(
    tmp_path: Path, mode: RedactMode, form: str
) -> None:
    text = f'[log]\nformat = "{form}"\n[security]\nredact-info-log = "{mode}"\n'
    log = _configured(tmp_path, text)
    _LOG.warning("stops: %s", _wrapped())
    try:
        _failed()
    except DefiniteError as e:
        _LOG.exception("a bug, which names %s", e.object)
    lines = log.read_text().splitlines()
    assert len(lines) == 2
    assert all(_SHOWN[mode] in line for line in lines)
    assert "_failed" in lines[1], "a traceback has its frames"
    assert ("4711" in log.read_text()) == (mode is not RedactMode.ON)
    # Who asks the API is told by roles what may be seen; neither there nor in the store are marks.
    assert str(_wrapped()).isprintable()
    assert "".join(_wrapped().to_dict().values()).isprintable()


def test_marks_within_user_data_are_doubled() -> None:
    text = f"a {user_data('‹b› c')} ‹d›"
    assert redacted(text, RedactMode.MARKER) == "a ‹‹‹b›› c› ‹d›"
    assert redacted(text, RedactMode.ON) == "a ? ‹d›"
    assert redacted(text, RedactMode.OFF) == plain(text) == "a ‹b› c ‹d›"
    # A text that was cut has lost the end of its data.
    assert redacted(text[:5], RedactMode.ON) == "a ?"


def test_a_running_server_shows_less_but_never_more(tmp_path: Path) -> None:
    _configured(tmp_path, "[security]\nredact-info-log = true\n")
    assert redaction.mode is RedactMode.ON
    with pytest.raises(RedactionLoosened):
        redaction.tighten(RedactMode.MARKER)
    _configured(tmp_path, "")
    assert redaction.tighten(RedactMode.MARKER) is RedactMode.OFF
    assert redaction.tighten(RedactMode.MARKER) is RedactMode.MARKER
    assert redaction.tighten(RedactMode.ON) is RedactMode.MARKER
