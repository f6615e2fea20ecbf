"""One target of each sink that keeps a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sink.mysql import driver
from tests.contract import targets
from tests.contract.targets import Target


@pytest.fixture(params=["kafka", "mariadb", "mysql", "file", "binlog", "binlog streams"])
def target(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Target]:
    """Return a target whose ledger knows nothing of the changefeed."""
    if request.param == "kafka":
        made = targets.kafka(request.getfixturevalue("broker"), fresh_name)
    elif request.param == "file":
        made = targets.file(tmp_path / "files", fresh_name)
    elif request.param.startswith("binlog"):
        streams = 3 if request.param == "binlog streams" else 1
        made = targets.binlog(tmp_path / "binlogs", fresh_name, streams)
    else:
        monkeypatch.setattr(driver, "_PATIENCE_S", 1)
        made = targets.mysql(request.getfixturevalue(request.param), fresh_name)
    yield made
    made.close()
