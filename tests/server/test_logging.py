"""What the server logs: whole lines in either form, what they are about, files that end in time."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.base.errors import DefiniteError
from cdc.base.log_fields import about
from cdc.base.parts import Parts
from cdc.server.log_rotation import RotatedFile, rotated
from cdc.server.logging_setup import LOGGERS, LoggerUnknown, configure, set_level
from cdc.server.settings import LogFileSettings, LogLevel, load

_LOG = logging.getLogger("processor")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    names = ("", "kafka", *LOGGERS)
    levels = {name: logging.getLogger(name or None).level for name in names}
    handlers = logging.getLogger().handlers[:]
    yield
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
