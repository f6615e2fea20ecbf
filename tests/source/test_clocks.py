"""Wrong clocks: later ts are not moved into the future."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.base.ts import physical_ms
from cdc.source.server_clock import SLACK_US, ServerClock
from tests.servers.database import Database
from tests.source.pulling import Pulled

S = 1_000_000
HOUR_US = 3600 * S


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-5.6"])
def test_one_event_of_the_future(
    name: str, database: Callable[..., Database], tmp_path: Path
) -> None:
    """A session's own timestamp is what these servers write into the binlog."""
    db = database(name)
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d")
    db.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    with Pulled(db, tmp_path / "log", heartbeat_s=0.2, standing_s=0.2) as p:
        db.execute("SET timestamp = UNIX_TIMESTAMP() + 7200", "INSERT INTO d.t VALUES (1)")
        p.caught_up()
        p.until(lambda: p.statuses[-1].ahead_ms > 7_000_000)
        db.execute("INSERT INTO d.t VALUES (2)")
        p.caught_up()
        late = int(db.execute("SELECT UNIX_TIMESTAMP()")[0][0]) * 1000 + 120_000
        p.until(lambda: p.writer.state.resolved_ts > p.writer.state.last_ts)
        log, runs = p.runs()
        first, second = runs.commit_ts[runs.kind == 1].tolist()
        log.close()
        assert first < second
        assert physical_ms(second) < late
        assert physical_ms(p.writer.state.resolved_ts) < late


def test_a_jump_ahead_is_not_believed() -> None:
    clock = ServerClock().heard(1000 * S, 0.0, 1000 * S)
    jumped = clock.heard(1001 * S + 2 * HOUR_US, 1.0, 1001 * S)
    assert jumped.latest_us(1.0, 1001 * S) == 1001 * S + SLACK_US
    assert jumped.skew_us == 2 * HOUR_US
    # Back where it was.
    assert jumped.heard(1002 * S, 2.0, 1002 * S).latest_us(2.0, 1002 * S) == 1002 * S + SLACK_US


def test_a_late_clock_that_is_put_right_is_believed() -> None:
    ours = 1000 * S + HOUR_US
    clock = ServerClock().heard(1000 * S, 0.0, ours)
    assert clock.skew_us == -HOUR_US
    right = clock.heard(ours + S, 1.0, ours + S)
    assert (right.latest_us(1.0, ours + S), right.skew_us) == (ours + S + SLACK_US, 0)


def test_our_own_wrong_clock_holds_nothing_back() -> None:
    clock = ServerClock().heard(1000 * S, 0.0, 10 * S)
    assert clock.latest_us(5.0, 15 * S) == 1005 * S + SLACK_US
