"""Two servers with a schema of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.servers import Database
from tests.verify.sides import Two


@pytest.fixture
def two(
    database: Callable[..., Database], fresh_name: str, request: pytest.FixtureRequest
) -> Iterator[Two]:
    """Return MariaDB 11.4 and MySQL 8.0, or the two servers of the test's parameter."""
    ours, theirs = getattr(request, "param", ("mariadb-11.4", "mysql-8.0"))
    # A second server of the same name, if both sides are to be the same.
    options = {"options": ["--skip-log-bin"]} if ours == theirs else {}
    made = Two(database(ours), database(theirs, **options), fresh_name)
    for server in (made.ours, made.theirs):
        server.execute(f"CREATE DATABASE {fresh_name}")
    yield made
    for server in (made.ours, made.theirs):
        server.execute(f"DROP DATABASE {fresh_name}")
