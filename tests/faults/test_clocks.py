"""Clocks that are set while an upstream is pulled: every row once, and ts never go back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from tests.servers.database import Database
from tests.source import pulling
from tests.source.pulling import Pulled, ordered

pytestmark = pytest.mark.real

_HOUR_S = 3600


class _SetClock(SystemClock):
    """The capture's wall clock, set by the test; the monotonic one goes on."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
@pytest.mark.parametrize("whose", ["upstream", "capture"])
def test_a_clock_that_is_set(
    name: str,
    whose: str,
    database: Callable[..., Database],
    schema_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = _SetClock()
    monkeypatch.setattr(pulling, "CLOCK", clock)
    db = database(name)
    db.execute(f"CREATE DATABASE {schema_name}", f"CREATE TABLE {schema_name}.t (id INT)")
    with Pulled(db, tmp_path / "log", heartbeat_s=0.2) as p:
        seen = []
        for i, step in enumerate((0, -2 * _HOUR_S, 10, -_HOUR_S, 0)):
            stamp = time.time() + step
            clock.ahead_ms = step * 1000 if whose == "capture" else 0
            session = f"SET timestamp = {stamp:.0f}" if whose == "upstream" else "DO 0"
            db.execute(session, f"INSERT INTO {schema_name}.t VALUES ({i})")
            p.caught_up()
            seen.append(p.writer.state.resolved_ts)
        assert p.error is None
        assert seen == sorted(seen)
        assert p.rows() == 5
        p.pause()
        p.resume()
        db.execute(f"INSERT INTO {schema_name}.t VALUES (9)")
        p.caught_up()
        log, runs = p.runs()
        assert ordered(runs)
        assert p.rows() == 6
        log.close()
