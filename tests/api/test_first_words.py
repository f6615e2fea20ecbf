"""What somebody types first: the version, help in either spelling, completion."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import cdc
from cdc.cli.main import app
from tests.api.server_process import run_cdc


def test_the_version_by_either_name() -> None:
    for words in (["--version"], ["version"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0
        assert done.stdout.startswith(f"Tidegate {cdc.__version__},")


@pytest.mark.parametrize(
    "words", [[], ["server"], ["cli"], ["cli", "changefeed"], ["cli", "changefeed", "create"]]
)
def test_help_by_either_name_everywhere(words: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*words, name]) for name in ("-h", "--help"))
    assert short.exit_code == 0
    assert short.stdout == long.stdout
    assert " ".join(["Usage:", "root", *words]) in short.stdout


@pytest.mark.parametrize(("words", "loaded"), [(["server"], []), (["cli"], ["cdc.client"])])
def test_a_server_loads_nothing_of_what_asks_others(words: list[str], loaded: list[str]) -> None:
    """It would be before all that it delivers."""
    code = (
        "import atexit, sys\n"
        "from cdc.cli.entry import main\n"
        "late = {'cdc.client', 'cdc.schema', 'numba', 'pyspark'}\n"
        "atexit.register(lambda: print(sorted(late & sys.modules.keys()), file=sys.stderr))\n"
        "main()"
    )
    command = [sys.executable, "-c", code, *words, "-h"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == f"{loaded}\n"


def test_a_word_of_ticdc_that_is_none_here_is_answered_with_what_to_use() -> None:
    done = run_cdc("cli", "configure-credentials")
    assert done.returncode == 2
    assert "No such command" in done.stderr
    assert "Hint: cli configure-credentials:" in done.stderr
    assert "`cdc cli token create`" in done.stderr


def test_completion_for_a_shell() -> None:
    done = CliRunner().invoke(app, [], prog_name="cdc", env={
        "_CDC_COMPLETE": "complete_bash", "COMP_WORDS": "cdc cli changefeed re", "COMP_CWORD": "3",
    })  # fmt: skip
    assert {"remove", "resume"} <= {*done.stdout.split()}
