"""docs/ticdc.md says of TiCDC's commands, requests and keys what the program does with them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer.main

from cdc.api.app import make
from cdc.base.errors import InvalidError
from cdc.cli import ticdc_words
from cdc.cli.main import app
from cdc.cli.ticdc_words import hint
from cdc.coord.feed_config import FeedConfig, FilterConfig
from owner.replica_config import check

PAGE = (Path(__file__).parents[2] / "docs/ticdc.md").read_text()
COMMANDS, API, KEYS = (PAGE.split(f"\n## {title}")[1].split("\n## ")[0] for title in (
    "Command line", "HTTP API", "Configuration of a changefeed",
))  # fmt: skip


def _rows(part: str, cells: int) -> list[list[str]]:
    """Rows of tables with so many cells, the first of which is code."""
    lines = (line for line in part.splitlines() if line.startswith("| `"))
    rows = ([cell.strip().strip("`") for cell in line[1:-1].split("|")] for line in lines)
    return [row for row in rows if len(row) == cells]


def _command(path: str) -> Any:
    """A command by its words, None if there is none."""
    found: Any = typer.main.get_command(app)
    for word in path.split()[1:]:
        found = getattr(found, "commands", {}).get(word)
        if found is None:
            return None
    return found


COMMAND_ROWS = [r for r in _rows(COMMANDS, 3) if r[0].startswith("cdc ")]
FLAG_ROWS = [r for r in _rows(COMMANDS, 4) if r[0].startswith("--")]


@pytest.mark.parametrize(("name", "state", "_"), COMMAND_ROWS, ids=lambda c: c[:30])
def test_a_command_is_there_as_it_says(name: str, state: str, _: str) -> None:
    assert state in ("same", "other", "none")
    assert (_command(name) is not None) == (state != "none")


@pytest.mark.parametrize(("flag", "of", "state", "_"), FLAG_ROWS, ids=lambda c: c[:30])
def test_a_flag_is_there_as_it_says(flag: str, of: str, state: str, _: str) -> None:
    command = _command(of)
    known = {o for p in command.params for o in p.opts} if command is not None else set()
    assert (flag in known) == (state != "none")


def test_what_there_is_not_is_explained_where_it_is_typed() -> None:
    """A command or flag of TiCDC's that is none here, refused with what to use instead."""
    commands = [name.split()[1:] for name, state, _ in COMMAND_ROWS if state == "none"]
    flags = [[*of.split()[1:], flag] for flag, of, state, _ in FLAG_ROWS if state == "none"]
    assert len(commands) > 4
    assert len(flags) > 3
    for words in (*commands, *flags, ["cli", "changefeed", "list", "--pd=x"]):
        said = hint(words)
        assert said, words
        assert said.startswith((" ".join(words), words[-1].partition("=")[0]))
        assert said == hint([*words, "--server", "http://h:1"])
    # Each of them is one that the program does not know.
    for known in ticdc_words.COMMANDS:
        assert _command(" ".join(("cdc", *known))) is None
    for first, flag in ticdc_words.FLAGS:
        assert not _has_flag(_command(f"cdc {first}"), flag)
    assert hint(["cli", "changefeed", "list", "--alll"]) == hint(["x"]) == hint([]) == ""


def _has_flag(command: Any, flag: str) -> bool:
    below = getattr(command, "commands", {}).values()
    own = any(flag in p.opts for p in command.params)
    return own or any(_has_flag(one, flag) for one in below)


@cache
def _operations() -> set[str]:
    paths = make(MagicMock(), MagicMock()).openapi()["paths"]
    return {
        f"{method.upper()} {_shape(path.removeprefix('/api/v2'))}"
        for path, methods in paths.items()
        for method in methods
    }


def _shape(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


API_ROWS = _rows(API, 3)


@pytest.mark.parametrize(("path", "state", "_"), API_ROWS, ids=lambda c: c[:40])
def test_a_path_is_there_as_it_says(path: str, state: str, _: str) -> None:
    assert (_shape(path) in _operations()) == (state != "none")


def test_every_path_is_told() -> None:
    """Ours too, those below another that is ``ours, and what is below it`` by that one."""
    told = {_shape(path) for path, _, _ in API_ROWS}
    below = [_shape(p).split()[1] for p, _, what in API_ROWS if "what is below" in what]
    untold = {
        o
        for o in _operations() - told
        if not any(o.split()[1] == b or o.split()[1].startswith(f"{b}/") for b in below)
    }
    assert untold == set()


KEY_ROWS = _rows(KEYS, 4)


def _nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


@pytest.mark.parametrize(("key", "state", "example", "_"), KEY_ROWS, ids=lambda c: c[:40])
def test_a_key_is_taken_as_it_says(key: str, state: str, example: str, _: str) -> None:
    given = _nested(key, json.loads(example))
    if state == "none":
        with pytest.raises(InvalidError, match=key.split(".")[0]):
            check(given)
        return
    config = check(given)
    assert (config == FeedConfig()) == (state == "accepted")


def test_every_key_is_told() -> None:
    told = {key for key, *_ in KEY_ROWS}
    own = {name.replace("_", "-") for name in FeedConfig.model_fields} - {"filter", "sink"}
    own |= {f"filter.{name.replace('_', '-')}" for name in FilterConfig.model_fields}
    missing = {k for k in own if k not in told and not any(t.startswith(f"{k}.") for t in told)}
    assert missing == {"filter.ignore-txn-gtid"}
    assert "`filter.ignore-txn-gtid`" in KEYS


def test_the_tables_are_read() -> None:
    assert len(COMMAND_ROWS) > 15
    assert len(FLAG_ROWS) > 20
    assert len(API_ROWS) > 25
    assert len(KEY_ROWS) > 25
