"""What tests of one upstream share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers.database import Database


@pytest.fixture(params=["mysql-8.0", "mariadb-11.4"])
def db(request: pytest.FixtureRequest, database: Callable[..., Database]) -> Database:
    """One server of each family, with an empty table ``d.t``."""
    server = database(request.param)
    server.execute(
        "DROP DATABASE IF EXISTS d",
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY)",
    )
    return server
