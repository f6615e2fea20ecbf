"""Windows of a running capture come to a collector as traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import servers
from tests.api.server_process import CdcServer
from tests.api.trace_collector import TraceCollector, attributes
from tests.waiting import until

pytestmark = pytest.mark.real


def test_a_window_says_when_which_of_its_parts_ran(
    server: CdcServer,
    collector: TraceCollector,
    mariadb: servers.Database,
    schema_name: str,
    tmp_path: Path,
) -> None:
    mariadb.execute(f"CREATE DATABASE {schema_name}", f"CREATE TABLE {schema_name}.t (id INT KEY)")
    uri = f"mysql://root@127.0.0.1:{mariadb.port}/?ssl-mode=disabled"
    assert server.api("POST", "/upstreams", {"name": "traced", "uri": uri}).is_success
    config = tmp_path / "feed.toml"
    config.write_text(f"filter.rules = ['{schema_name}.*']\n")
    words = ("changefeed", "create", "-c", "traced", "-u", "traced", "--config", str(config))
    server.cli_json(*words, "--sink-uri", f"file://{tmp_path / 'out'}?protocol=canal-json")
    mariadb.execute(f"INSERT INTO {schema_name}.t VALUES (1), (2), (3)")
    window = until(
        lambda: next(
            (w for w in collector.windows("traced") if attributes(w).get("tidegate.rows") == "3"),
            None,
        ),
        "a window with the rows",
    )
    assert window["resource"]["service.name"] == "tidegate"
    parts = collector.parts(window)
    assert parts.keys() == {"pull", "plan", "job", "report"}
    task = collector.parts(parts["job"])["task"]
    inner = collector.parts(task)
    assert inner.keys() == {"open", "read", "encode", "commit"}
    # What follows one another does so, and what is part of something lies in it.
    for order in (parts["pull"], parts["plan"], parts["job"], parts["report"]), inner.values():
        moments = [int(s[key]) for s in order for key in ("startTimeUnixNano", "endTimeUnixNano")]
        assert moments == sorted(moments)
    assert _within(task, parts["job"])
    assert all(_within(part, task) for part in inner.values())
    assert collector.headers[0]["authorization"] == "Bearer planted"
    assert "planted" not in server.log.read_text()
    assert server.api("DELETE", "/changefeeds/traced").is_success
    assert server.api("DELETE", "/upstreams/traced").is_success


def _within(part: dict[str, str], whole: dict[str, str]) -> bool:
    # Ends are sums of parts, rounded down to nanoseconds.
    begins, ends = "startTimeUnixNano", "endTimeUnixNano"
    slack = 1_000_000
    return (
        int(part[begins]) >= int(whole[begins]) - slack
        and int(part[ends]) <= int(whole[ends]) + slack
    )
