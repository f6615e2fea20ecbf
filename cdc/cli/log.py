"""``cdc log``: print and verify binlog files, our change log's or a server's own."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import typer

from cdc.base.errors import TidegateError
from cdc.binlog.reader import BinlogReader

app = typer.Typer(help="Print and verify binlog files.", no_args_is_help=True)


class LogFormat(StrEnum):
    """What ``print`` writes."""

    TEXT = "text"
    CANAL_JSON = "canal-json"


_File = Annotated[Path, typer.Argument(help="A binlog file of MySQL, MariaDB or our change log.")]
_FileOrLog = Annotated[Path, typer.Argument(help="A binlog file, or the folder of a change log.")]
_Schema = Annotated[
    Path | None, typer.Option("--schema", help="CREATE TABLE statements that name the columns.")
]
_Format = Annotated[LogFormat, typer.Option("--format", help="text: every event; or rows only.")]


@app.command("print")
def print_log(file: _File, schema: _Schema = None, format: _Format = LogFormat.TEXT) -> None:
    """Print every event of FILE, or its rows as canal-json messages, one a line."""
    from cdc.cli.log_events import FilePrinter

    try:
        with BinlogReader(file) as reader:
            for line in FilePrinter(reader, schema, text=format is LogFormat.TEXT).lines():
                _write(sys.stdout, line)
            sys.stdout.flush()
    except TidegateError as error:
        _fail(error)
    except BrokenPipeError:
        # Whoever read us has seen enough; the interpreter must not flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


@app.command()
def verify(file: _FileOrLog) -> None:
    """Check lengths, checksums, fields and the order of events of FILE; print counts by type.

    For the folder of a change log: every byte of its segments, indexes, tables and manifest.
    """
    from cdc.binlog.verify import verify as verify_file

    if file.is_dir():
        _verify_log(file)
        return

    try:
        report = verify_file(file)
    except TidegateError as error:
        _fail(error)
    checksums = "checksums good" if report.checksums else "no checksums"
    _write(sys.stdout, f"{report.file}: server {report.server_version}, {checksums}")
    for name, count in sorted(report.events.items()):
        _write(sys.stdout, f"{count:>10}  {name}")
    for name, count in sorted(report.inside.items()):
        _write(sys.stdout, f"{count:>10}  {name} (compressed)")
    tail = ", the last one open" if report.open_at_end else ""
    _write(sys.stdout, f"{report.transactions} transactions{tail}, {report.bytes} bytes: good")


def _fail(error: TidegateError) -> NoReturn:
    sys.stdout.flush()
    _write(sys.stderr, f"error: {error}")
    raise typer.Exit(1) from None


def _verify_log(folder: Path) -> None:
    # Only here, so that printing a file does not load all of the change log.
    from cdc.changelog import lock
    from cdc.changelog.errors import LogLocked
    from cdc.changelog.reader import ChangeLog
    from cdc.changelog.verify import verify as verify_log

    live = False
    try:
        if (folder / "manifest").exists():
            os.close(lock.acquire(folder))
    except LogLocked:
        live = True
    except OSError:
        # A copy that we may only read: nobody else writes it either.
        live = False
    findings = verify_log(folder, live=live)
    for finding in findings:
        _write(sys.stderr, f"error: {finding.error()}")
    if findings:
        raise typer.Exit(1)
    log = ChangeLog.open(folder)
    try:
        state = log.refresh()
    finally:
        log.close()
    files = len(state.segments())
    _write(sys.stdout, f"{folder}: {files} segments, {state.bytes()} bytes: good")
    _write(sys.stdout, f"holds ts {state.first_ts} to {state.resolved_ts} (resolved)")


def _write(stream: TextIO, line: str) -> None:
    stream.write(line.encode("utf-8", "replace").decode() + "\n")
