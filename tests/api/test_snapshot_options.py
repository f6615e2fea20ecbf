"""What ``changefeed create`` sends of a snapshot: the command line counts, the file is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc.cli import changefeed
from cdc.cli.main import cli


@pytest.mark.parametrize(
    ("words", "snapshot"),
    [
        ([], {"chunk-rows": 7}),
        (["--snapshot", "initial"], {"chunk-rows": 7, "mode": "initial"}),
        (["--create-tables"], {"chunk-rows": 7, "create-tables": True}),
        (
            ["--snapshot", "only", "--create-tables"],
            {"chunk-rows": 7, "mode": "only", "create-tables": True},
        ),
    ],
)
def test_options_of_a_snapshot(
    words: list[str], snapshot: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []

    class Server:
        def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
            """Keep what is asked for."""
            assert path == "/changefeeds"
            sent.append(body)
            return {"id": "f"}

    monkeypatch.setattr(changefeed, "client", Server)
    config = tmp_path / "feed.toml"
    config.write_text("[snapshot]\nchunk-rows = 7\n")
    asked = ["changefeed", "create", "-c", "f", "-u", "u", "--sink-uri", "blackhole://"]
    done = CliRunner().invoke(cli, [*asked, "--config", str(config), "--json", *words])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == {"id": "f"}
    assert sent[0]["replica_config"]["snapshot"] == snapshot
