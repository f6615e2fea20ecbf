"""An upstream that no longer holds what comes next: a named, visible stop, never a silent gap."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way, make_way
from tests.waiting import until

pytestmark = pytest.mark.real


@pytest.fixture
def own(capture: CaptureProcess, broker: servers.Broker, fresh_name: str) -> Iterator[Way]:
    """Return a way from a server of this test alone, one row delivered."""
    with servers.database("mysql-8.0") as database:
        way = make_way(capture, database, broker, fresh_name, fresh_name.replace("_", "-"))
        way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        way.create()
        way.execute("INSERT INTO t VALUES (1)")
        way.delivered()
        yield way
        if not capture.running:
            capture.start(ready=False)
            until(lambda: _answers(capture), "the API answers")
        capture.ask("DELETE", f"/changefeeds/{way.name}")
        capture.ask("DELETE", f"/upstreams/{way.upstream}")


# An attempt to connect takes many times as long as the first pauses between two attempts.
_RETRIED = ("retrying", "connecting")


def _answers(capture: CaptureProcess) -> bool:
    try:
        return capture.api("GET", "/health").is_success
    except httpx.TransportError:
        return False


def _retried(way: Way) -> bool:
    shown = way.capture.ask("GET", f"/upstreams/{way.upstream}")
    return shown["state"] in _RETRIED and bool(shown["error"])


def _runs(way: Way) -> bool:
    shown = way.capture.ask("GET", f"/upstreams/{way.upstream}")
    return shown["state"] == "running" and not shown["error"]


def _failed(way: Way) -> Any:
    def look() -> Any:
        found = way.capture.ask("GET", f"/upstreams/{way.upstream}")
        return found if found["state"] == "failed" else None

    return until(look, "the upstream is shown as failed")


def _seen(way: Way, code: str) -> None:
    error = _failed(way)["error"]
    assert error["code"] == code
    assert error["hint"]
    assert error["position"]
    feed = way.capture.wait_state(way.name, "failed")
    assert feed["error"]["code"] == code
    shown = way.capture.cli("upstream", "list").stdout
    assert code in shown
    assert topics.ids(way.messages()) == [1]


def test_binlogs_that_were_purged_while_nobody_pulled(own: Way) -> None:
    family = own.capture.family()
    own.capture.kill()
    until(lambda: not any(p.is_running() for p in family), "JVM and workers follow kill -9", 20)
    own.execute("INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
    own.execute("FLUSH BINARY LOGS")
    last = own.database.binlogs()[-1].name
    own.execute(f"PURGE BINARY LOGS TO '{last}'")
    own.capture.start()
    _seen(own, "TG:ErrBinlogPurged")


def test_reset_master_while_nobody_pulled(own: Way) -> None:
    own.capture.kill()
    own.execute("RESET MASTER", "INSERT INTO t VALUES (2)")
    own.capture.start()
    _seen(own, "TG:ErrUpstreamReset")


def test_the_server_goes_and_comes_back(own: Way) -> None:
    own.database.kill()
    until(lambda: _retried(own), "it is retried, and says why")
    own.database.start()
    own.execute("INSERT INTO t VALUES (2)")
    own.delivered()
    assert topics.ids(own.messages()) == [1, 2]
    # Silent, not closed: only missing heartbeats tell.
    own.database.signal(signal.SIGSTOP)
    until(lambda: _retried(own), "it is retried, and says why")
    own.database.signal(signal.SIGCONT)
    own.execute("INSERT INTO t VALUES (3)")
    own.delivered()
    assert topics.ids(own.messages()) == [1, 2, 3]
    until(lambda: _runs(own), "it runs")


def test_ctrl_c_ends_within_ten_seconds_and_leaves_nothing(own: Way) -> None:
    family = own.capture.family()
    assert len(family) > 2
    assert own.capture.interrupt() == 0
    until(lambda: not any(p.is_running() for p in family), "JVM and workers are gone", 10)
    assert "Traceback" not in own.capture.text()
    own.execute("INSERT INTO t VALUES (2)")
    own.capture.start()
    own.delivered()
    assert topics.ids(own.messages()) == [1, 2]
