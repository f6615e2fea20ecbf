"""A real Prometheus scrapes a running capture: each query of each dashboard has data, and alerts.

The alerts are those that we ship, judged at once instead of behind minutes of patience.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.api.server_process import CdcServer
from tests.prometheus.dashboards import asked, queries
from tests.prometheus.server import Prometheus, prometheus
from tests.prometheus.test_alerts import RULES
from tests.servers.proxy import Proxy
from tests.waiting import until

pytestmark = pytest.mark.slow

# What only has a series once it has happened, and does not happen here.
WITHOUT = {
    "tidegate_changefeed_window_failures_total": "no window fails",
    "tidegate_changefeed_errors_total": "no changefeed shows an error",
    "tidegate_changefeed_borrowed_tasks_total": "there is no other capture",
    "tidegate_changefeed_snapshot_": "no rows are copied",
    "tidegate_changefeed_sync_points_total": "no sync points are asked for",
    "tidegate_store_failures_total": "the store does not fail",
    "tidegate_upstream_served_bytes_total": "all workers map the files",
}
# Others use this machine and its disks: without the patience of minutes that these alerts have,
# that is seen too, and is no fault of the capture's.
ENVIRONMENT = {"TidegateStoreSlow", "TidegateLogDisk", "TidegateLogDiskSoon"}
FEED = """
ddl-policy = "hold-all"
filter.rules = ['{schema}.*']
[[filter.event-filters]]
matcher = ['{schema}.t']
ignore-insert-value-expr = "v = 'left out'"
"""


@pytest.fixture
def line(mariadb: servers.Database) -> Iterator[Proxy]:
    """The way to the upstream, which can be cut."""
    with Proxy(mariadb.port) as proxy:
        yield proxy


@pytest.fixture
def watched(server: CdcServer, tmp_path: Path) -> Iterator[Prometheus]:
    hasty = re.sub(r"for: \d+m", "for: 1s", RULES.read_text())
    assert hasty != RULES.read_text()
    # A change that is being judged waits for a moment; here that is no alert.
    rules = tmp_path / "alerts.yml"
    rules.write_text(hasty)
    with prometheus({"tidegate": [server.url.removeprefix("http://")]}, rules) as running:
        yield running


def test_every_query_has_data_and_alerts_fire_in_their_fault(
    server: CdcServer,
    mariadb: servers.Database,
    broker: servers.Broker,
    line: Proxy,
    watched: Prometheus,
    schema_name: str,
    topic_prefix: str,
    tmp_path: Path,
) -> None:
    schema = schema_name
    mariadb.execute(f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t (id INT KEY, v TEXT)")
    uri = f"mysql://root@127.0.0.1:{line.port}/?ssl-mode=disabled"
    assert server.api("POST", "/upstreams", {"name": "scraped", "uri": uri}).is_success
    config = tmp_path / "feed.toml"
    config.write_text(FEED.format(schema=schema))
    sink = f"kafka://{broker.bootstrap}/{topic_prefix}?protocol=canal-json"
    words = ("changefeed", "create", "-c", "scraped", "-u", "scraped", "--sink-uri", sink)
    server.cli_json(*words, "--config", str(config))
    rows = 'tidegate_changefeed_rows_total{changefeed="scraped"}'

    def write(first: int) -> None:
        values = ",".join(f"({n}, 'kept')" for n in range(first, first + 100))
        mariadb.execute(f"INSERT INTO {schema}.t (id, v) VALUES {values}")
        mariadb.execute(f"INSERT INTO {schema}.t (id, v) VALUES ({-first - 1}, 'left out')")

    write(0)
    until(lambda: server.metrics().get(rows, 0) >= 100, "rows are delivered")
    until(lambda: watched.query(rows), "Prometheus has seen it")
    # Before its first sample nobody was the owner.
    _fires(watched)

    # A schema change is held: rows of its table wait, and so does the checkpoint.
    mariadb.execute(f"ALTER TABLE {schema}.t ADD COLUMN w INT DEFAULT 1")
    _fires(watched, "TidegateDdlHeld", also={"TidegateCheckpointStands"})
    held = _without_data(watched)
    (ddl,) = server.api("GET", "/changefeeds/scraped/ddls").json()["items"]
    answer = server.api("POST", f"/changefeeds/scraped/ddls/{ddl['ts']}/approve", {})
    assert answer.is_success, answer.text
    _fires(watched)
    for n in range(1, 6):
        write(n * 1000)
        time.sleep(0.4)
    # Each query has data at one of the times; what is there only while a change is held was there
    # then, and errors of an upstream are behind its fault.
    missing = _without_data(watched) & held

    line.refuse()
    line.cut()
    down = {"TidegateUpstreamDown", "TidegateReconnects"}
    until(lambda: "TidegateUpstreamDown" in watched.firing(), "an upstream is away")
    assert watched.firing() - ENVIRONMENT <= down
    line.go_on()
    until(lambda: "TidegateUpstreamDown" not in watched.firing(), "it is there again")
    missing &= _without_data(watched)
    reasons = {name: {m for m in WITHOUT if m in name} for name in missing}
    assert all(reasons.values()), [name for name, why in reasons.items() if not why]
    # The list has nothing that is there after all.
    assert set().union(*reasons.values()) == set(WITHOUT)

    assert server.api("DELETE", "/changefeeds/scraped").is_success
    assert server.api("DELETE", "/upstreams/scraped").is_success
    until(lambda: '"scraped"' not in str(server.metrics()), "their series have ended")


def _fires(watched: Prometheus, *wanted: str, also: Collection[str] = ()) -> None:
    """Wait until these alerts fire, and no others but those that the same fault may cause."""
    seen: list[set[str]] = []
    beside = ENVIRONMENT | set(also)
    try:
        until(lambda: seen.append(watched.firing() - beside) or seen[-1] == set(wanted), "alerts")
    except AssertionError:
        raise AssertionError(f"{seen[-1]} fire instead of {wanted}") from None


def _without_data(watched: Prometheus) -> set[str]:
    """Queries of dashboards that give nothing now: place and expression."""
    return {
        f"{place}: {expr}" for place, expr in queries() if not watched.query(asked(expr, "20s"))
    }
