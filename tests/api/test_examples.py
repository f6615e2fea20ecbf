"""The example files are accepted, and the server's shows the real defaults."""

from __future__ import annotations

import tomllib
from pathlib import Path

from cdc.server.settings import ServerSettings, load
from owner.replica_config import check
from sink.open import open_sink

CONFIGS = Path(__file__).parents[2] / "configs"


def test_server_toml_shows_the_defaults() -> None:
    data_dir = Path("/data")
    assert load(CONFIGS / "server.toml", {"data_dir": data_dir}) == ServerSettings(
        data_dir=data_dir
    )


def test_changefeed_toml() -> None:
    config = check(tomllib.loads((CONFIGS / "changefeed.toml").read_text()))
    assert config.filter.rules == ["shop.*", "!shop.tmp_*"]
    open_sink("kafka://h:9092/t", config.sink)
