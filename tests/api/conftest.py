"""One server for the tests that do not end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.server_process import CdcServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdcServer]:
    """A running server with an empty store."""
    made = CdcServer(tmp_path_factory.mktemp("server") / "data")
    try:
        yield made.start()
    finally:
        made.end()
