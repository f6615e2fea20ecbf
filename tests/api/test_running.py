"""A running server: what it removes, what it shows of upstreams in trouble, resuming elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cdc.changelog.reader import ChangeLog
from tests import servers
from tests.api.server_process import CdcServer
from tests.servers.database import Database, database
from tests.waiting import until

pytestmark = pytest.mark.slow

SETTINGS = """
[changelog]
segment-bytes = 65536
keep-s = 0
collect-s = 0.3
free-space-reserve-bytes = 0
disk-budget-bytes = {budget}
[source]
heartbeat-s = 0.2
block-bytes = 65536
"""
T = "CREATE TABLE r.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)"


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with database("mariadb-11.4") as server:
        server.execute("CREATE DATABASE r", T, "CREATE TABLE r.loose (a INT)")
        yield server


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, db: Database, sink: str) -> Iterator[CdcServer]:
    """A server with two changefeeds; each test leaves both running, so each can run alone."""
    folder = tmp_path_factory.mktemp("small")
    config = folder / "server.toml"
    config.write_text(SETTINGS.format(budget=3_000_000))
    made = CdcServer(folder / "data", "--config", str(config))
    try:
        made.start()
        made.cli_json("upstream", "create", "-u", "main", "--uri", db.uri())
        for feed in ("one", "two"):
            _create(made, feed, sink)
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def sink(broker: servers.Broker) -> str:
    return f"kafka://{broker.bootstrap}/running?protocol=canal-json"


def _create(server: CdcServer, feed: str, sink: str, more: str = "") -> Any:
    config = server.data_dir.parent / f"{feed}.toml"
    config.write_text(f"filter.rules = ['r.t']\n{more}")
    words = ("changefeed", "create", "-c", feed, "-u", "main", "--sink-uri", sink)
    return server.cli_json(*words, "--config", str(config))


def _feed(server: CdcServer, feed: str) -> Any:
    return server.api("GET", f"/changefeeds/{feed}").json()


def _upstream(server: CdcServer) -> Any:
    return server.api("GET", "/upstreams/main").json()


def _load(db: Database, megabytes: float) -> None:
    insert = "INSERT INTO r.t (v) VALUES (REPEAT('m', 50000))"
    for _ in range(int(megabytes * 20)):
        db.execute(insert)


def _segments(server: CdcServer) -> list[int]:
    return sorted(int(p.stem) for p in (server.data_dir / "log/main/0").glob("*.binlog"))


def _last_ts(server: CdcServer) -> dict[int, int]:
    """The last ts of each segment that is there now."""
    with closing(ChangeLog.open(server.data_dir / "log/main/0")) as log:
        return {s.number: s.last_ts for s in log.state.segments()}


def _caught_up(server: CdcServer, *feeds: str) -> None:
    now = server.cli_json("tso", "query")["tso"]
    for feed in feeds:
        until(lambda f=feed: _feed(server, f)["checkpoint_ts"] >= now, f"{feed} catches up")


def test_old_segments_go_and_a_paused_changefeed_holds_them(small: CdcServer, db: Database) -> None:
    _load(db, 1)
    _caught_up(small, "one", "two")
    until(lambda: _segments(small)[0] > 1, "the first segments go")
    small.cli("changefeed", "pause", "-c", "two")
    last_ts = _last_ts(small)
    _load(db, 0.7)
    _caught_up(small, "one")
    # The collector has its chance once a second; too short a wait can only hide a fault.
    time.sleep(3)
    # Asked for now: what was under way at the pause has raised it since.
    checkpoint = _feed(small, "two")["checkpoint_ts"]
    last_ts |= _last_ts(small)
    held = min(number for number, last in last_ts.items() if last > checkpoint)
    assert _segments(small)[0] <= held
    # All that was loaded since, however many transactions a segment has taken at once.
    assert _upstream(small)["log_bytes"] > 600_000
    # What is left serves both, also anew: the schemas of both starts were kept.
    for feed in ("one", "two"):
        small.cli("changefeed", "pause", "-c", feed)
        assert small.cli("changefeed", "resume", "-c", feed).returncode == 0
    _caught_up(small, "one", "two")
    until(lambda: _segments(small)[0] > held, "the held segments go")
    assert _feed(small, "two")["state"] == "normal"
    # A segment that took many transactions at once is ended, and may go, by the next one.
    _load(db, 0.05)
    until(lambda: _upstream(small)["log_bytes"] < 300_000, "the log is small")


def test_resume_from_elsewhere(small: CdcServer, db: Database) -> None:
    words = ("changefeed", "resume", "-c", "two", "--no-confirm", "--overwrite-checkpoint-ts")
    running = small.cli(*words, "now")
    assert "[TG:ErrChangefeedUpdateRefused]" in running.stderr
    small.cli("changefeed", "pause", "-c", "two")
    assert "[TG:ErrLogCollected]" in small.cli(*words, "1000").stderr
    late = small.cli_json("tso", "query")["tso"] + (3_600_000 << 18)
    assert "[TG:ErrStartTsInvalid]" in small.cli(*words, str(late)).stderr
    assert "[TG:ErrTsInvalid]" in small.cli(*words, "soon").stderr
    before = _feed(small, "two")
    assert before["state"] == "stopped"
    _load(db, 0.1)
    done = small.cli(*words, "now")
    assert done.returncode == 0, done.stderr
    after = _feed(small, "two")
    assert after["checkpoint_ts"] > before["checkpoint_ts"]
    assert after["epoch"] > before["epoch"]
    _caught_up(small, "two")
    # Back again: the same rows are delivered once more, which the ledger must not prevent.
    # A paused changefeed keeps the log from being collected meanwhile.
    _caught_up(small, "one")
    small.cli("changefeed", "pause", "-c", "one")
    middle = small.cli_json("tso", "query")["tso"]
    # What comes now has a ts above it, though servers date what they log by the second.
    _caught_up(small, "two")
    _load(db, 0.2)
    _caught_up(small, "two")
    small.cli("changefeed", "pause", "-c", "two")
    assert small.cli(*words[:4], "--overwrite-checkpoint-ts", str(middle), stdin="n\n").returncode
    back = small.cli(*words[:4], "--overwrite-checkpoint-ts", str(middle), stdin="y\n")
    assert back.returncode == 0, back.stderr
    _caught_up(small, "two")
    # One report has both, and metrics follow what the API shows.
    rows = 'tidegate_changefeed_rows_total{changefeed="two"}'
    until(lambda: small.metrics()[rows] >= 4, "they are counted")
    small.cli("changefeed", "resume", "-c", "one")


def test_synced_and_processors(small: CdcServer, db: Database, sink: str) -> None:
    found = small.api("GET", "/changefeeds/one/synced").json()
    assert found["synced"] is False
    assert found["info"] == "The data syncing is not finished, please wait"
    _create(small, "quick", sink, "[synced-status]\nsynced-check-interval = 2\n")
    _load(db, 0.1)
    _caught_up(small, "quick")
    look = until(
        lambda: (s := small.api("GET", "/changefeeds/quick/synced").json())["synced"] and s, "quiet"
    )
    assert look["info"] == "Data syncing is finished"
    assert look["last_synced_ts"] < look["sink_checkpoint_ts"] <= look["now_ts"]
    assert look["puller_resolved_ts"] >= look["sink_checkpoint_ts"]
    _load(db, 0.1)
    _caught_up(small, "quick")
    again = small.api("GET", "/changefeeds/quick/synced").json()
    assert again["last_synced_ts"] > look["last_synced_ts"]
    items = small.api("GET", "/processors").json()["items"]
    assert {"one", "two", "quick"} == {i["changefeed_id"] for i in items}
    capture = items[0]["capture_id"]
    one = small.api("GET", f"/processors/quick/{capture}").json()
    assert one["tables"] == ["r.t"]
    assert len(one["table_ids"]) == 1
    # TiCDC's clients read it from the changefeed itself.
    tasks = [{"capture_id": capture, "table_ids": one["table_ids"]}]
    full = small.api("GET", "/changefeeds/quick").json()
    assert (full["admin_job_type"], full["task_status"]) == (0, tasks)
    small.cli("changefeed", "pause", "-c", "quick")
    assert small.api("GET", "/changefeeds/quick").json()["admin_job_type"] == 1
    small.cli("changefeed", "remove", "-c", "quick")


def test_warnings_at_creation(small: CdcServer, db: Database, sink: str, tmp_path: Path) -> None:
    words = ("changefeed", "create", "-u", "main", "--sink-uri", sink, "-c")
    refused = small.cli(*words, "loose", stdin="n\n")
    assert refused.returncode == 1
    assert "[WARN]" in refused.stdout
    assert "[TG:ErrTableIneligible]" in refused.stderr
    agreed = small.cli(*words, "loose", stdin="y\n")
    assert agreed.returncode == 0, agreed.stderr
    assert "are left out: r.loose" in agreed.stderr
    config = tmp_path / "force.toml"
    config.write_text("force-replicate = true\n")
    forced = small.cli(*words, "forced", "--config", str(config))
    assert "cannot tell rows apart: r.loose" in forced.stderr
    for feed in ("loose", "forced"):
        small.cli("changefeed", "remove", "-c", feed)


def test_the_disk_budget_stops_pulling_and_shows(small: CdcServer, db: Database, sink: str) -> None:
    small.cli("changefeed", "pause", "-c", "one")
    _load(db, 6)
    found = until(lambda: (u := _upstream(small))["state"] == "paused" and u, "pulling stops")
    assert found["error"]["code"] == "TG:ErrDiskBudget"
    line = next(x for x in small.cli("upstream", "list").stdout.splitlines() if "main" in x)
    assert "paused" in line
    assert "TG:ErrDiskBudget" in line
    assert small.metrics()['tidegate_upstream_up{upstream="main"}'] == 0
    small.cli("changefeed", "resume", "-c", "one")
    until(lambda: _upstream(small)["state"] == "running", "it goes on")
    _caught_up(small, "one", "two")
    assert small.metrics()['tidegate_upstream_up{upstream="main"}'] == 1


def test_a_puller_that_ended_is_seen_everywhere(small: CdcServer, db: Database) -> None:
    db.execute("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO r.t (v) VALUES ('s')")
    found = until(lambda: (u := _upstream(small))["state"] == "failed" and u, "the puller ends")
    assert found["error"]["code"] == "TG:ErrStatementFormat"
    assert "TG:ErrStatementFormat" in small.cli("upstream", "query", "-u", "main").stdout
    feed = until(lambda: (f := _feed(small, "one"))["state"] == "failed" and f, "it fails")
    assert feed["error"]["code"] == "TG:ErrStatementFormat"
    metrics = small.metrics()
    assert metrics['tidegate_upstream_up{upstream="main"}'] == 0
    name = 'tidegate_upstream_errors_total{code="TG:ErrStatementFormat",upstream="main"}'
    assert metrics[name] >= 1
    assert metrics['tidegate_changefeed_state{changefeed="one"}'] == 2
    # Resuming tries the upstream once more, and says the same again.
    assert small.cli("changefeed", "resume", "-c", "one").returncode == 0
    until(lambda: _feed(small, "one")["state"] == "failed", "it fails again")
    assert small.metrics()[name] >= 2
