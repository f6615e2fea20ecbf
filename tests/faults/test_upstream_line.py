"""The connection to an upstream fails in each way: every row comes once, and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers.database import Database
from tests.servers.proxy import Proxy
from tests.source.pulling import Pulled, ordered

pytestmark = pytest.mark.real

_ROWS = 40
_BYTES = 20_000


@pytest.fixture(params=["mariadb-11.4", "mysql-8.0"])
def upstream(request: pytest.FixtureRequest, database: Callable[..., Database]) -> Database:
    """A server of each family."""
    return database(request.param)


@pytest.fixture
def pulled(upstream: Database, schema_name: str, tmp_path: Path) -> Iterator[tuple[Pulled, Proxy]]:
    """The server, pulled through a proxy; a few seconds of silence are too many."""
    upstream.execute(
        f"CREATE DATABASE {schema_name}", f"CREATE TABLE {schema_name}.t (id INT, v TEXT)"
    )
    with Proxy(upstream.port) as proxy:
        uri = f"mysql://root@127.0.0.1:{proxy.port}/?ssl-mode=disabled"
        with Pulled(upstream, tmp_path / "log", uri=uri, silence_s=3, heartbeat_s=0.5) as p:
            yield p, proxy


def _write(db: Database, schema: str, first: int) -> None:
    """Transactions of one row, each of several packets on the wire."""
    many = (
        f"INSERT INTO {schema}.t VALUES ({first + i}, REPEAT('r', {_BYTES}))" for i in range(_ROWS)
    )
    db.execute(*many)


@pytest.mark.parametrize("how", ["cut", "stall", "half-open", "slow"])
def test_a_line_that_fails(
    how: str, upstream: Database, schema_name: str, pulled: tuple[Pulled, Proxy]
) -> None:
    p, proxy = pulled
    _write(upstream, schema_name, 0)
    p.caught_up()
    begin: dict[str, Callable[[], None]] = {
        "cut": lambda: proxy.cut_after(_ROWS * _BYTES // 2 + 7),
        "stall": lambda: proxy.stop_after(_ROWS * _BYTES // 2),
        "half-open": proxy.lose,
        "slow": lambda: proxy.slow(4_000_000),
    }
    begin[how]()
    _write(upstream, schema_name, _ROWS)
    if how == "cut":
        p.until(lambda: proxy.cuts == 1)
    if how == "stall":
        p.until(lambda: proxy.stalled)
        # Silence is an error, and the next try waits as well, until the line is whole again.
        p.until(lambda: p.statuses[-1].error is not None)
    proxy.go_on()
    p.caught_up()
    assert p.error is None
    assert p.rows() == 2 * _ROWS
    log, runs = p.runs()
    assert ordered(runs)
    rows = runs.commit_ts[runs.kind == 1].tolist()
    assert len(set(rows)) == 2 * _ROWS, "a transaction of one row has a ts of its own"
    log.close()
