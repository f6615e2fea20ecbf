"""What every ``cdc cli`` command has: options of the server on both sides, exit codes, --watch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cdc.base.errors import TransientError
from cdc.cli import filter as filtering
from cdc.cli import output, watching
from cdc.cli.main import app, cli
from cdc.cli.watching import watched
from cdc.client import ServerRefused
from tests.api.server_process import CdcServer, run_cdc


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, below in command.commands.items():
        yield from _leaves(below, (*words, name))


_COMMANDS = [
    *_leaves(typer.main.get_command(cli), ("cli",)),
    *_leaves(typer.main.get_command(filtering.app), ("filter",)),
]


@pytest.mark.parametrize(("words", "command"), _COMMANDS, ids=[" ".join(w) for w, _ in _COMMANDS])
def test_every_command_takes_the_server_behind_its_verb(
    words: tuple[str, ...], command: Any
) -> None:
    flags = [flag for p in command.params for flag in p.opts]
    assert {"--server", "--profile", "--token-file", "--ca", "--cert", "--key"} <= {*flags}
    assert len(flags) == len({*flags})
    verb = words[-1]
    if verb in ("list", "query", "show") and words[1] not in ("token", "tso"):
        assert "--watch" in flags


def test_before_and_behind_the_verb_are_the_same(
    server: CdcServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(server.token)
    # The server's own user would need no token.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    where, who = ("--server", server.url), ("--token-file", str(token))
    verb = ("capture", "list", "--json")
    for words in ((*where, *who, *verb), (*verb, *where, *who), (*where, *verb, *who)):
        done = run_cdc("cli", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)[0]["is_owner"]
    # The one that stands behind counts.
    done = run_cdc("cli", "--server", "http://127.0.0.1:9", *verb, *where, *who)
    assert done.returncode == 0
    assert "[TG:ErrAPIUnauthorized]" in run_cdc("cli", *verb, *where).stderr

    profiles = tmp_path / "tidegate" / "profiles.toml"
    profiles.parent.mkdir(exist_ok=True)
    profiles.write_text(f"[mine]\nserver = '{server.url}'\ntoken-file = '{token}'\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for words in (("--profile", "mine", *verb), (*verb, "--profile", "mine")):
        assert run_cdc("cli", *words).returncode == 0


def test_exit_codes(server: CdcServer) -> None:
    """As docs/operate.md has them."""
    assert server.cli("capture", "list").returncode == 0
    assert server.cli("changefeed", "query", "-c", "none").returncode == 1
    assert run_cdc("cli", "capture", "list", "--server", "http://127.0.0.1:9").returncode == 1
    assert run_cdc("cli", "capture", "lisst").returncode == 2
    assert run_cdc("cli", "capture", "list", "--jsn").returncode == 2
    assert run_cdc("cli", "changefeed", "query").returncode == 2


def test_all_that_is_wrong_is_shown_at_once(server: CdcServer, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[filter]\nrules = [\n  "shop.*",\n  "shop.[",\n]\nruels = []\n')
    done = server.cli(
        "changefeed", "create", "-u", "no-such", "-c", "a--b", "--sink-uri", "gopher://x",
        "--config", str(file),
    )  # fmt: skip
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert [line.split("]")[0] for line in lines] == [
        "Error: [TG:ErrInvalidChangefeedID",
        "Error: [TG:ErrUpstreamNotFound",
        "Error: [TG:ErrSinkURIInvalid",
        "Error: [TG:ErrConfigUnknownKey",
    ]
    assert f"{file}:6" in lines[3]
    file.write_text('[filter]\nrules = [\n  "shop.*",\n  "shop.[",\n]\n')
    done = server.cli(
        "changefeed", "create", "-u", "no-such", "--sink-uri", "blackhole://", "--config", str(file)
    )
    lines = done.stderr.splitlines()
    assert [line.split("]")[0][8:] for line in lines] == [
        "TG:ErrUpstreamNotFound",
        "TG:ErrFilterRuleInvalid",
    ]
    assert f"{file}:4" in lines[1]


def test_watching_ends_by_ctrl_c(server: CdcServer) -> None:
    words = ["cli", "capture", "list", "--watch", "--json", "--server", server.url]
    with subprocess.Popen(
        [sys.executable, "-m", "cdc.cli.entry", *words], stdout=subprocess.PIPE, text=True
    ) as watching_it:
        assert watching_it.stdout is not None
        # Each line is a whole answer.
        shown = [json.loads(watching_it.stdout.readline()) for _ in range(2)]
        assert [s[0]["is_owner"] for s in shown] == [True, True]
        os.kill(watching_it.pid, signal.SIGINT)
        assert watching_it.wait(30) == 130


class _Away(TransientError):
    code = "TG:ErrAwayInTest"


def test_watching_outlasts_what_passes_and_ends_by_what_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watching, "_EVERY_S", 0.0)
    answers: list[Any] = [
        "one", _Away("away"), ServerRefused("TG:ErrB", "busy", "", kind="transient"), "two",
        ServerRefused("TG:ErrGone", "gone", ""),
    ]  # fmt: skip

    def show(*, json: bool = False) -> None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        output.as_json(answer) if json else typer.echo(answer)

    with pytest.raises(ServerRefused, match="gone"):
        watched(show)(watch=True, json=True)
    said = capsys.readouterr()
    assert said.out == '"one"\n"two"\n'
    assert [line[:14] for line in said.err.splitlines()] == ["Error: [TG:Err"] * 2

    answers[:] = [_Away("away"), "one"]
    with pytest.raises(_Away):
        watched(show)(watch=True)
    assert answers == ["one"]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (-5, "0.0s"), (440, "0.4s"), (9_999, "10.0s"), (12_900, "12s"), (185_000, "3m05s"),
        (4 * 3_600_000 + 7 * 60_000, "4h07m"), (51 * 3_600_000, "2d03h"),
    ],
)  # fmt: skip
def test_a_lag_as_people_say_it(ms: int, shown: str) -> None:
    assert output.lag(ms) == shown


def test_the_authority_of_an_upstream_is_not_that_of_the_server() -> None:
    words = ["cli", "upstream", "create", "-u", "a", "--uri", "mysql://u@h", "--ca", "u.pem"]
    # Nobody listens there; a server's authority that cannot be read would be said first.
    done = run_cdc(*words, "--server", "http://127.0.0.1:9")
    assert "[TG:ErrServerUnreachable]" in done.stderr
    assert CliRunner().invoke(app, ["cli", "--ca", "s.pem", *words[1:3], "-h"]).exit_code == 0
