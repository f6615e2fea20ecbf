"""Printing: tables for people, JSON for programs, one line for errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from cdc.base.errors import TidegateError
from cdc.base.refusals import ServerRefused, SeveralReasons

# It is a seventh of what a command takes to start, and JSON does without it.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLOURS = {"normal": "green", "warning": "yellow", "failed": "red", "stopped": "cyan"}
_follow: ContextVar[bool] = ContextVar("follow", default=False)


def as_json(value: Any) -> None:
    """Indented JSON on stdout; one line where more follow, so that each line is a whole."""
    indent = None if _follow.get() else 2
    sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=False) + "\n")
    sys.stdout.flush()


@contextmanager
def screens(*, json: bool) -> Iterator[Callable[[], None]]:
    """Several outputs, one after the other; what is given is called before each."""
    printed = 0

    def begin() -> None:
        nonlocal printed
        if sys.stdout.isatty() and not json:
            _console().clear()
        elif printed and not json:
            sys.stdout.write("\n")
        printed += 1

    before = _follow.set(True)
    try:
        yield begin
    finally:
        _follow.reset(before)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table on stdout; piped output is as wide as it needs to be, and without colours."""
    shown = _table(*columns, header_style="bold")
    for row in rows:
        cells = ["" if c is None else str(c) for c in row]
        shown.add_row(*(_coloured(c) for c in cells))
    _console().print(shown)


def fields(value: Mapping[str, Any]) -> None:
    """One object as two columns; nested values as JSON."""
    shown = _table(show_header=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, item in value.items():
        if item is None or item == "" or item == []:
            continue
        text = json.dumps(item, ensure_ascii=False) if isinstance(item, dict | list) else str(item)
        shown.add_row(name, _coloured(text))
    _console().print(shown)


def error(problem: TidegateError | ServerRefused) -> None:
    """``Error: [TG:ErrX] message; hint: …`` on stderr, in one line; several reasons in one each."""
    if isinstance(problem, ServerRefused | SeveralReasons) and problem.reasons:
        for reason in problem.reasons:
            error(reason)
        return
    if isinstance(problem, ServerRefused):
        text = f"[{problem.code}] {problem.message}"
        if problem.hint:
            text += f"; hint: {problem.hint}"
    else:
        text = str(problem)
    sys.stderr.write("Error: " + " ".join(text.split()) + "\n")


def lag(ms: int) -> str:
    """How long ago: ``0.4s``, ``12s``, ``3m05s``, ``4h07m``, ``2d03h``."""
    if ms < 10_000:
        return f"{max(0, ms) / 1000:.1f}s"
    minutes, s = divmod(ms // 1000, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days:
        return f"{days}d{h:02d}h"
    if hours:
        return f"{hours}h{m:02d}m"
    return f"{minutes}m{s:02d}s" if minutes else f"{s}s"


def warning(text: str) -> None:
    """``Warning: …`` on stderr, in one line."""
    sys.stderr.write("Warning: " + " ".join(text.split()) + "\n")


def _coloured(cell: str) -> Any:
    from rich.text import Text

    return Text(cell, style=_COLOURS.get(cell, ""))


def _table(*columns: str, **style: Any) -> Table:
    from rich.table import Table

    return Table(*columns, box=None, pad_edge=False, **style)


def _console() -> Console:
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=10_000, soft_wrap=True)
